"""``lakestream docs``: the documentation that came with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command
from lakestream.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping


def _pages() -> Mapping[str, Path]:
    folder = Path(str(files("lakestream"))) / "docs"
    return {
        str(page.relative_to(folder).with_suffix("")): page
        for page in sorted(folder.rglob("*.md"))
        if "notebooks" not in page.parts
    }


def _complete_page(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _pages() if name.startswith(incomplete)]


@command("docs")
@click.argument("page", required=False, shell_complete=_complete_page)
@click.pass_obj
def docs(session: Session, page: str | None) -> None:
    """List the pages of the documentation, or show PAGE."""
    pages = _pages()
    if page is None:
        titles = [(name, _title(path)) for name, path in pages.items()]
        if session.json:
            print_json({"pages": [{"page": name, "title": title} for name, title in titles]})
        else:
            print_table(("page", "title"), titles)
        return
    if page not in pages:
        raise click.BadParameter(f"there is no page {page}; {did_you_mean(page, pages) or 'see the list'}")
    text = pages[page].read_text(encoding="utf-8")
    if session.json:
        print_json({"page": page, "text": text})
    else:
        click.echo_via_pager(text)


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return lines.readline().strip("# \n")
