"""The page as a person meets it: what it shows, does and survives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.server.shown.documents import QueryDocument
from tests.browser.lake import EVIL, NOW, stream

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Shown

pytestmark = pytest.mark.browser


def expect(found: Any) -> Any:
    from playwright.sync_api import expect

    return expect(found)


def line_of(page: Page, name: str) -> Any:
    return page.locator("tbody tr").filter(has=page.get_by_role("link", name=name, exact=True))


def open_stream(page: Page, name: str = "main.hourly") -> None:
    page.get_by_role("region", name="Streams").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def part(page: Page, title: str) -> Any:
    return page.locator("section").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_all_streams_are_listed(page: Page) -> None:
    expect(page.locator("tbody tr")).to_have_count(7)
    expect(page.get_by_text("7 streams: 4 running")).to_be_visible()
    expect(line_of(page, "main.alarms")).to_contain_text("3 commits, 1 min 15 s")
    expect(line_of(page, "main.daily")).to_contain_text("CHANGES_LOST")
    expect(line_of(page, "main.hourly")).to_contain_text("recalculating: 2 of 5 parts")
    # In the lake's time zone, two hours ahead.
    expect(line_of(page, "main.report")).to_contain_text("2025-03-01 14:10:00")
    expect(page.locator("#footer")).to_contain_text("times in Europe/Helsinki")


def test_a_stream_is_found_among_many(page: Page, shown: Shown) -> None:
    many = [
        stream(f"s{number:03}", rows_in=number, lag=number % 2, why="late" * (number % 2))
        for number in range(300)
    ]
    shown.lake.streams_shown = [*many, *shown.lake.streams_shown]
    shown.tell(type="status", stream="main.s000")
    table = page.get_by_role("region", name="Streams")
    lines = table.locator("tbody tr")
    expect(lines).to_have_count(307)
    page.get_by_label("Find").fill("power_hourly CHANGES")
    expect(lines).to_have_count(1)
    expect(lines).to_contain_text("main.daily")
    page.get_by_label("Find").fill("s2")
    expect(lines).to_have_count(100)
    page.get_by_label("Show").select_option("Not current")
    expect(lines).to_have_count(50)
    table.get_by_role("button", name="Rows in").click()
    expect(lines.first).to_contain_text("main.s299")
    table.get_by_role("button", name="Rows in").press("Enter")
    expect(lines.first).to_contain_text("main.s201")
    expect(table.get_by_role("columnheader", name="Rows in")).to_have_attribute("aria-sort", "descending")
    # What was asked for stays while one looks at a stream, and what is written while news come.
    open_stream(page, "main.s201")
    page.get_by_role("link", name="All streams").click()
    expect(lines).to_have_count(50)
    page.get_by_label("Find").fill("nobody")
    shown.tell(type="status", stream="main.s000")
    expect(page.get_by_text("No stream is like that.")).to_be_visible()
    expect(page.get_by_label("Find")).to_be_focused()


def test_what_needs_somebody_stands_first(page: Page, shown: Shown) -> None:
    shown.lake.streams_shown = [*(stream(f"s{number:03}") for number in range(60)), *shown.lake.streams_shown]
    page.reload()
    lines = page.get_by_role("region", name="Streams").locator("tbody tr")
    expect(lines.nth(0)).to_contain_text("main.daily")
    expect(lines.nth(1)).to_contain_text("main.mirror")
    expect(lines.nth(2)).to_contain_text("main.s000")


def test_cards_leave_out_what_says_nothing(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    due, commits = (line_of(page, name).locator("td") for name in ("main.report", "main.alarms"))
    expect(due.filter(has_text="2025-03-01 14:10:00")).to_be_visible()
    expect(due.filter(visible=True)).to_have_count(9)  # it has no lag
    expect(commits.filter(visible=True)).to_have_count(9)  # it is never due
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(commits.filter(visible=True)).to_have_count(10)


def test_a_long_reason_keeps_its_line_short(page: Page, shown: Shown) -> None:
    usual = line_of(page, "main.mirror").bounding_box()
    shown.lake.streams_shown[2] = stream(
        "daily", status="Failed", last_error="CHANGES_LOST: it is gone " * 40
    )
    shown.tell(type="status", stream="main.daily")
    expect(line_of(page, "main.daily").locator("small.wrong")).to_have_attribute(
        "title", re.compile("gone .* gone")
    )
    long = line_of(page, "main.daily").bounding_box()
    assert usual is not None
    assert long is not None
    assert long["height"] < usual["height"] + 40


def test_continuous_queries_are_listed(page: Page, shown: Shown) -> None:
    sql = "CREATE CQ means BEGIN SELECT avg(s) INTO root.ln.means(s) FROM root.ln.d GROUP BY (1h) END"
    known = {"name": "means", "sql": sql, "state": "ACTIVE", "next_at": NOW, "last_at": None, "skipped": 2}
    shown.lake.queries_shown = [QueryDocument(**known, last_error="STORAGE: away")]
    shown.tell(type="status", stream="main.hourly")
    line = page.get_by_role("region", name="Continuous queries").locator("tbody tr")
    expect(line).to_contain_text("GROUP BY (1h)")
    expect(line).to_contain_text("STORAGE: away")
    expect(line).to_contain_text("2025-03-01 14:00:00")
    graph = page.get_by_role("region", name="Lineage")
    expect(graph.get_by_role("link", name="continuous query means")).to_be_visible()
    expect(graph.get_by_text("root.means", exact=True)).to_be_visible()
    expect(graph.locator("path.edge")).to_have_count(16)


def test_what_leads_out_of_a_state_stands_beside_it(page: Page, shown: Shown) -> None:
    open_stream(page, "main.daily")
    page.get_by_role("alert").get_by_role("button", name="Resync").click()
    page.get_by_role("dialog").get_by_role("button", name="Resync").click()
    expect(page.get_by_text("queued: the next round")).to_be_visible()
    assert shown.lake.asked == [("main.daily", None, None)]
    page.get_by_role("button", name="Verify").click()
    page.get_by_role("dialog").get_by_role("button", name="Verify").click()
    expect(page.get_by_role("status").get_by_text("93 of 93 rows equal")).to_be_visible()


def test_the_lineage_leads_to_streams(page: Page) -> None:
    graph = page.get_by_role("region", name="Lineage")
    expect(graph.locator("path.edge")).to_have_count(14)
    source, stream = (
        graph.get_by_text(name, exact=True).bounding_box() for name in ("main.power", "main.daily")
    )
    assert source is not None
    assert stream is not None
    assert source["x"] < stream["x"]
    graph.get_by_role("link", name="stream main.daily, Failed").click()
    expect(page.get_by_role("alert")).to_contain_text("CHANGES_LOST")


def test_a_stream_is_told_of(page: Page) -> None:
    open_stream(page)
    expect(page).to_have_title("main.hourly – lakestream")
    expect(part(page, "Definition")).to_contain_text("AS SELECT _twstart AS hour")
    expect(page.locator(".plot canvas")).to_have_count(4)
    expect(
        page.get_by_role("img", name=re.compile("^mean of main.power_hourly, from .* hall A"))
    ).to_be_visible()
    expect(part(page, "Recalculations")).to_contain_text("2025-02-28 08:00:00")
    expect(part(page, "Recalculations")).to_contain_text("2 of 5")
    expect(part(page, "Recalculations")).to_contain_text("340")
    expect(part(page, "Errors")).to_contain_text("line 3, column 22")
    expect(part(page, "Errors")).to_contain_text("main.hourly__errors")
    expect(part(page, "Events").locator("tbody tr")).to_have_count(3)
    expect(part(page, "Events").locator("tbody tr").first).to_contain_text("2025-03-01 14:00:00")
    expect(part(page, "Newest rows").locator("tbody tr")).to_have_count(12)


def test_another_column_is_plotted(page: Page) -> None:
    open_stream(page)
    page.get_by_label("Column").select_option("n")
    expect(page.get_by_role("img", name=re.compile("^n of main.power_hourly"))).to_be_visible()
    expect(page.get_by_label("Column")).to_be_focused()


def test_what_happens_is_shown_at_once(page: Page, shown: Shown) -> None:
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    shown.lake.streams_shown[0] = stream("hourly", rows_in=7_654_321)
    shown.tell(type="tick", stream="main.hourly")
    expect(line_of(page, "main.hourly")).to_contain_text("7,654,321")
    open_stream(page)
    shown.lake.events_shown = shown.lake.events_shown[:1]
    shown.tell(type="event", stream="main.hourly")
    expect(part(page, "Events").locator("tbody tr")).to_have_count(1)


def test_a_stream_is_stopped_by_the_keyboard_after_a_question(page: Page, shown: Shown) -> None:
    open_stream(page)
    button = page.get_by_role("button", name="Stop")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Stop main.hourly?")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert shown.lake.asked == []
    button.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("dialog").get_by_role("button", name="Stop")).to_be_focused()
    shown.lake.streams_shown[0] = stream("hourly", status="Stopped")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    assert shown.lake.asked == [("STOP STREAM `main`.`hourly`",)]
    page.get_by_role("button", name="Start").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(page.get_by_role("status").get_by_text("done")).to_be_visible()
    assert shown.lake.asked[1:] == [("START STREAM `main`.`hourly`",)]


def test_a_range_is_recalculated(page: Page, shown: Shown) -> None:
    open_stream(page)
    page.get_by_role("button", name="Recalculate").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2031-01-01T00:00:00")
    # The answer is refused with status 400, which a browser notes, when it gets to it.
    with page.expect_console_message(lambda said: said.type == "error"):
        dialog.get_by_role("button", name="Recalculate").click()
    expect(dialog.get_by_role("alert")).to_have_text("the range lies in the future. begin before now")
    shown.errors.clear()
    dialog.get_by_label("From").fill("2025-01-01T06:30:00")
    dialog.get_by_label("To").fill("2025-01-02T00:00:00")
    dialog.get_by_role("button", name="Recalculate").click()
    expect(page.get_by_text("queued: the next round recalculates main.hourly")).to_be_visible()
    assert [asked[0] for asked in shown.lake.asked] == ["main.hourly"]
    assert shown.lake.asked[0][1].startswith("2025-01-01 06:30")


def test_names_are_text(page: Page, shown: Shown) -> None:
    open_stream(page, f"main.{EVIL}")
    expect(page.locator("img[onerror]")).to_have_count(0)
    assert "hurt" not in page.title().removeprefix(f"main.{EVIL}")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_text("done")).to_be_visible()
    assert shown.lake.asked == [(f"STOP STREAM `main`.`{EVIL}`",)]


def test_what_is_not_there_is_said(page: Page, shown: Shown) -> None:
    page.goto(f"{shown.url}/#/streams/main/nightly")
    expect(page.get_by_role("alert")).to_contain_text("there is no stream main.nightly")
    expect(page.get_by_role("alert")).to_contain_text("did you mean hourly?")
    page.get_by_role("link", name="All streams").click()
    shown.errors.clear()
    open_stream(page, "main.old")
    expect(part(page, "Output")).to_contain_text("there is no table of main.old")
    expect(part(page, "Seconds per tick")).to_contain_text("Nothing to show yet.")
    shown.errors.clear()


def test_an_empty_lake_says_what_to_do(page: Page, shown: Shown) -> None:
    shown.lake.streams_shown = []
    page.reload()
    expect(page.get_by_text("There is no stream in this lake yet.")).to_be_visible()
    expect(page.locator("pre")).to_contain_text("CREATE STREAM hourly")


def test_a_daemon_that_is_gone_is_missed_and_found_again(page: Page, shown: Shown) -> None:
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.route("**/api/streams", lambda route: route.abort())
    shown.tell(type="tick", stream="main.hourly")
    expect(page.get_by_role("alert")).to_contain_text("the daemon does not answer")
    expect(page.locator("tbody tr")).to_have_count(7)
    page.unroute("**/api/streams")
    shown.tell(type="tick", stream="main.hourly")
    expect(page.get_by_role("alert")).to_have_count(0)
    shown.errors.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.locator("tbody tr")).to_have_count(7)
    assert hidden_width(page, "html") == 0
    if width == 1280:
        assert hidden_width(page, ".streams") == 0
    open_stream(page)
    expect(page.locator(".plot canvas")).to_have_count(4)
    assert hidden_width(page, "html") == 0


def hidden_width(page: Page, selector: str) -> int:
    """Return how many pixels of an element are out of sight to the right."""
    found = page.locator(selector)
    return int(found.evaluate("element => element.scrollWidth - element.clientWidth"))


def test_nothing_comes_from_elsewhere(page: Page, shown: Shown) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    open_stream(page)
    expect(page.locator(".plot canvas")).to_have_count(4)
    assert asked
    assert all(url.startswith(shown.url) for url in asked)
