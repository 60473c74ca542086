"""What the reference lists is what the code has: settings, requests and metrics, each once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unittest.mock import Mock

from lakestream.server.api.app import create_app
from lakestream.server.api.asking import Service
from lakestream.server.api.guard import Keys
from lakestream.server.news.metrics import Metrics
from lakestream.settings import Settings
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


def section(page: str, heading: str) -> list[str]:
    """Return the first cells of the tables of a section."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = text.partition(f"\n## {heading}\n")[2] if heading else text
    return [line.split("|")[1] for line in found.partition("\n## ")[0].splitlines() if line.startswith("| `")]


def ticked(cells: list[str]) -> Iterator[str]:
    """Yield what stands in back-ticks; ``…`` is what the one before has in its place."""
    before = ""
    for name in re.findall(r"`([^`]+)`", " ".join(cells)):
        rest = name.removeprefix("…")
        separator = rest[0]
        full = f"{before.rpartition(separator)[0]}{rest}" if name != rest else name
        yield full
        before = full


def test_the_page_of_settings_lists_the_settings() -> None:
    assert set(ticked(section("configuration.md", "Settings"))) == set(Settings.described())


def test_the_page_of_http_lists_the_requests() -> None:
    app = create_app(Service(*[Mock()] * 6), names=frozenset(), keys=Keys()).app
    places = {"{database}": "DB", "{name}": "NAME", "{query}": "ID"}
    found = set()
    for path, methods in app.openapi()["paths"].items():  # type: ignore[attr-defined]
        shown = re.sub(r"\{\w+\}", lambda place: places[place[0]], path)
        found |= {f"{method.upper()} {shown}" for method in methods}
    listed = {name.partition("?")[0] for name in ticked(section("http.md", ""))}
    assert {name for name in listed if re.match("(GET|POST|DELETE) /", name)} == found | {"GET /api/live"}


def test_the_page_of_http_lists_the_metrics() -> None:
    text = Metrics(list, dict, int).text().decode()
    families = {
        name + ("_info" if kind == "info" else "")
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
        if not name.endswith("_created")
    }
    assert {name.partition("{")[0] for name in ticked(section("http.md", "Metrics"))} == families
