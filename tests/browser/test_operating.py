"""What an operator does on the page: statements, tables, windows, plans, ranges, lineage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.lake import stream
from tests.browser.test_page import expect, open_stream, part

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Shown

pytestmark = pytest.mark.browser


def go(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()
    # The part before has rows as well.
    expect(page.get_by_role("heading", level=1, name=name, exact=True)).to_be_visible()


def test_names_are_completed_and_results_are_shown(page: Page, shown: Shown) -> None:
    go(page, "SQL")
    box = page.get_by_label("Statements", exact=True)
    options = page.get_by_role("option").filter(visible=True)
    box.press_sequentially("SELECT ts, watts FROM pow")
    expect(page.get_by_role("listbox")).to_contain_text("power")
    box.press("Tab")
    expect(box).to_have_value("SELECT ts, watts FROM power")
    box.press_sequentially(" WHERE wa")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_have_text("watts")
    box.press("Escape")
    expect(options.filter(has_text="watts")).to_have_count(0)
    box.press("Control+Enter")
    expect(part(page, "Result").locator("tbody tr")).to_have_count(3)
    expect(page.get_by_role("img", name=re.compile("^watts of the result"))).to_be_visible()
    box.fill("SELECT wrong")
    # The answer is refused with status 400, which a browser notes.
    with page.expect_console_message(lambda said: said.type == "error"):
        box.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("did you mean watts?")
    expect(page.get_by_role("alert").locator("pre")).to_have_text("SELECT wrong\n       ^")
    shown.errors.clear()


def test_tables_lead_to_streams_and_rows(page: Page) -> None:
    go(page, "Tables")
    table = page.get_by_role("region", name="Tables")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table.locator("tbody tr").first).to_contain_text("main.hourly")
    page.get_by_label("Subtables").check()
    expect(table.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Find").fill("weather")
    expect(table.locator("tbody tr")).to_have_count(1)
    table.get_by_role("link", name="main.weather").click()
    expect(page.get_by_label("Statements", exact=True)).to_have_value(re.compile("FROM `main`.`weather`"))


def test_cards_of_tables_say_what_stands_in_them(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    go(page, "Tables")
    cells = page.get_by_role("region", name="Tables").locator("tbody tr").last.locator("td")
    expect(cells.filter(visible=True)).to_have_count(3)  # nobody reads it
    assert cells.nth(2).evaluate("one => getComputedStyle(one, '::before').content") == '"Written by"'


def test_windows_have_a_timeline_and_the_next_tick_a_plan(page: Page) -> None:
    open_stream(page)
    windows = part(page, "Windows")
    expect(windows).to_contain_text("fired again of late, open since 2025-03-01 15:00:00")
    expect(windows.locator("rect.window-open")).to_have_count(3)
    assert windows.locator("rect.window-again").count() == 39
    windows.get_by_text("As a table").click()
    expect(windows.locator("tbody tr").first).to_contain_text("open")
    page.get_by_role("button", name="Show the plan").click()
    expect(part(page, "Next tick").locator("tbody tr").last).to_contain_text("one commit")


def test_a_range_that_is_drawn_is_recalculated(page: Page, shown: Shown) -> None:
    open_stream(page)
    plot = part(page, "Output").locator(".u-over")
    plot.scroll_into_view_if_needed()
    place = plot.bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + place["width"] * 0.25, y)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] * 0.5, y, steps=4)
    page.mouse.up()
    part(page, "Output").get_by_role("button", name=re.compile("^Recalculate 2025-02-28")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("From")).to_have_value(re.compile("^2025-02-28T"))
    dialog.get_by_role("button", name="Recalculate").click()
    expect(page.get_by_text("queued: the next round")).to_be_visible()
    ((name, low, high),) = shown.lake.asked
    assert name == "main.hourly"
    assert "2025-02-28" < low < high < "2025-03-02"


def test_a_range_is_seen_in_the_dark(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    open_stream(page)
    drawn = part(page, "Output").locator(".u-select").first
    assert drawn.evaluate("one => getComputedStyle(one).backgroundColor").startswith("rgba(94, 196, 210")


def test_a_single_tick_stands_in_a_minute(page: Page) -> None:
    around = "async () => (await import('/static/charts.js')).around([100], 100, 86400100)"
    assert page.evaluate(around) == [70, 130]


@pytest.mark.parametrize("name", ["Errors", "Events", "Next tick"])
def test_nothing_of_a_stream_is_beside_a_phones_screen(page: Page, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    open_stream(page)
    page.get_by_role("button", name="Show the plan").click()
    holder = part(page, name).locator(".cards").first
    expect(holder).to_be_visible()
    assert holder.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_many_readers_of_a_table_are_shown_when_asked_for(page: Page, shown: Shown) -> None:
    shown.lake.streams_shown = [stream(f"r{at}", sources=["main.power"]) for at in range(9)]
    go(page, "Tables")
    line = page.get_by_role("region", name="Tables").locator("tbody tr").filter(has_text="main.r0")
    expect(line.get_by_role("link", name="main.r8")).to_be_hidden()
    line.get_by_text("and 3 others").click()
    expect(line.get_by_role("link", name="main.r8")).to_be_visible()


def many() -> list[dict[str, Any]]:
    """Sixty streams: ten chains of six, and one of them has failed."""
    made = []
    for chain in range(10):
        for step in range(6):
            source = f"main.c{chain}_{step - 1}_out" if step else f"main.raw{chain}"
            made.append(stream(f"c{chain}_{step}", sources=[source]))
    made[13] |= {"status": "Failed", "last_error": "CHANGES_LOST: the changes of version 7 are gone " * 5}
    return made


def test_the_lineage_of_sixty_streams_is_looked_at_one_way_at_a_time(page: Page, shown: Shown) -> None:
    shown.lake.streams_shown = many()
    page.reload()
    graph = page.get_by_role("region", name="Lineage")
    expect(graph.locator("path.edge")).to_have_count(120)
    source, read = (graph.get_by_text(name, exact=True).bounding_box() for name in ("main.raw7", "main.c7_0"))
    assert source is not None
    assert read is not None
    assert abs(source["y"] - read["y"]) < 2
    assert graph.evaluate("one => one.clientHeight < 600")
    page.get_by_role("button", name="Fit the width").click()
    assert graph.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.get_by_label("Around").select_option("main.c2_1")
    expect(graph.locator("path.edge")).to_have_count(12)
    expect(graph.get_by_role("link", name="stream main.c2_1, Failed")).to_be_visible()
    width = graph.locator("svg").bounding_box()
    page.get_by_role("button", name="Larger").click()
    larger = graph.locator("svg").bounding_box()
    assert width is not None
    assert larger is not None
    assert larger["width"] > width["width"]


def violations(page: Page) -> list[tuple[str, str]]:
    """Return which rules of axe-core are broken, and by what."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(one["id"], str(node["target"])) for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_all_parts_are_accessible(page: Page, shown: Shown, width: int, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    shown.lake.streams_shown = [*shown.lake.streams_shown, *many()]
    page.reload()
    for name, ready in (("Streams", ".lineage"), ("Tables", "tbody tr"), ("SQL", "textarea")):
        go(page, name)
        expect(page.locator(ready).first).to_be_visible()
        assert violations(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    go(page, "Streams")
    open_stream(page)
    expect(page.locator(".plot canvas")).to_have_count(4)
    assert violations(page) == []
