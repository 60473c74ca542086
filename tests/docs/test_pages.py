"""The pages hold together: links lead somewhere, and every error code of the code has its line."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ERRORS = ROOT / "docs" / "errors.md"

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"[A-Z][A-Z0-9_]+")


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have where Markdown is shown."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("https:", "http:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(_LINK.findall(index))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= linked
    assert {f"notebooks/{path.name}" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")} <= linked
    clauses = set(_LINK.findall((ROOT / "docs" / "streams.md").read_text(encoding="utf-8")))
    assert {f"streams/{page.name}" for page in (ROOT / "docs" / "streams").glob("*.md")} <= clauses


def test_the_site_lists_every_page() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == set(listed(nav))


def listed(nav: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from listed(part)


def codes() -> Iterator[str]:
    """Yield the error codes in the code, those that are put together there as regular expressions."""
    for module in sorted((ROOT / "lakestream").rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            for value in _code_of(node):
                text = _pattern(value)
                if _CODE.fullmatch(text.replace(_CODE.pattern, "X")):
                    yield text


def _code_of(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that are an error's code: the first argument, or what ``code`` is set to."""
    if isinstance(node, ast.Call) and node.args:
        function = ast.unparse(node.func)
        raises = function.endswith((".error", "Error")) or function in ("refused", "super().__init__")
        return [node.args[0]] if raises else []
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).split(".")[-1] == "code":
        both = isinstance(node.value, ast.IfExp)
        return [node.value.body, node.value.orelse] if both else [node.value]  # type: ignore[attr-defined]
    return []


def _pattern(value: ast.expr) -> str:
    if isinstance(value, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else _CODE.pattern for part in value.values
        )
    return str(value.value) if isinstance(value, ast.Constant) else ""


def test_the_errors_page_is_complete() -> None:
    text = ERRORS.read_text(encoding="utf-8")
    listed = {code for line in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for code in _in_ticks(line)}
    raised = set(codes())
    missing = [code for code in raised if not any(re.fullmatch(code, known) for known in listed)]
    assert not missing, f"docs/errors.md lacks {sorted(missing)}"
    gone = [known for known in listed if not any(re.fullmatch(code, known) for code in raised)]
    assert not gone, f"docs/errors.md has codes that nothing raises: {sorted(gone)}"


def _in_ticks(cell: str) -> list[str]:
    return re.findall(rf"`({_CODE.pattern})`", cell)
