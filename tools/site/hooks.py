"""What the site needs beyond what mkdocs does: files that pages link to and that lie outside of ``docs/``."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File
from pymdownx.slugs import slugify

from tools.site.diagrams import diagram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
BESIDE = "source"
"""The folder of the site that holds what lies outside of ``docs/``."""
HTTP = ROOT / "build" / "http.html"
"""What the API says of itself, which ``build.py`` writes: the end of the page on HTTP."""
SHIM = "assets/iframe-worker/shim.js"
"""What lets a page that is opened from a disk be searched; the theme would load it from elsewhere."""
_SHIM_ELSEWHERE = re.compile(r"https://[\w./-]+/iframe-worker/shim")

_RAILROAD = re.compile(r"<!-- railroad: (\S+) -->")
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>\.\./[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Give headings the anchors that they have where Markdown is shown in a repository."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the files outside of ``docs/`` that pages link to, and the shim."""
    shim = Path(__file__).with_name("iframe-worker") / "shim.js"
    files.append(File.generated(config, SHIM, abs_src_path=str(shim)))
    for page in [file for file in files if file.is_documentation_page()]:
        for path in _outside(page.content_string, page.src_uri):
            if (ROOT / path).is_file():
                added = File.generated(config, f"{BESIDE}/{path}", abs_src_path=str(ROOT / path))
                if added.src_uri not in files.src_uris:
                    files.append(added)


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Draw diagrams, end the page on HTTP, and lead links out of ``docs/`` to the copies.

    Of a folder the name alone stays.
    """

    def led(link: re.Match[str]) -> str:
        path = _path(link["path"], page.file.src_uri)
        if path is None:
            return link[0]
        if not (ROOT / path).is_file():
            return link["text"]
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"[{link['text']}]({posixpath.relpath(f'{BESIDE}/{path}', here)}{link['anchor'] or ''})"

    markdown = _RAILROAD.sub(lambda found: f'<div class="railroad">{diagram(found[1])}</div>', markdown)
    if page.file.src_uri == "http.md":
        markdown += f"\n\n{HTTP.read_text(encoding='utf-8')}"
    if page.file.src_uri.startswith(f"{BESIDE}/"):
        # A page of the checkout's top: its links go from there.
        return re.sub(r"\]\((?:docs/)([^)\s]+)\)", r"](../\1)", markdown)
    return _LINK.sub(led, markdown)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Load the shim from the site."""
    here = posixpath.dirname(page.file.src_uri) or "."
    return _SHIM_ELSEWHERE.sub(posixpath.relpath(SHIM, here), output)


def on_post_template(output_content: str, **_: object) -> str:
    """Load the shim from the site, for the page of what is not found, which stands anywhere."""
    return _SHIM_ELSEWHERE.sub(f"/{SHIM}", output_content)


def _outside(markdown: str, source: str) -> Iterator[str]:
    for link in _LINK.finditer(markdown):
        if path := _path(link["path"], source):
            yield path


def _path(link: str, source: str) -> str | None:
    """Return where a link of a page leads to, from the top of the checkout; None for one within ``docs/``."""
    found = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), link))
    return None if found.startswith("docs/") else found
