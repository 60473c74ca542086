"""A row far from the others stops its group only: that waits and is shown, and there is a way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from tests.contract.test_strange_rows import START, STRANGE, THEN, expected, good, story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.contract.test_strange_rows import Story

pytestmark = pytest.mark.spark
__all__ = ["story"]

TRIGGERS = {
    "tumbling": "INTERVAL(10s) SLIDING(10s)",
    "sliding": "INTERVAL(20s) SLIDING(10s)",
    "hourly": "INTERVAL(1h) SLIDING(1h)",
    "instants": "SLIDING(10s)",
}
LATER = good((81, 1, 1), (82, 2, 1), (95, 1, 2), (96, 2, 2))
FAR = "x = 0.5"


def create(story: Story, name: str, kind: str, options: str) -> None:
    start = "_tprev_ts" if kind == "instants" else "_twstart"
    story.lake.sql(
        f"CREATE STREAM {name} {TRIGGERS[kind]} FROM t PARTITION BY g STREAM_OPTIONS({options}) "
        f"INTO o_{name} AS SELECT {start} AS w, count(*) AS n, sum(x) AS total FROM %%trows"
    )


def check_waits(story: Story, name: str) -> None:
    """Group 1 waits by name, and VERIFY holds for the other one."""
    [status] = [status for status in story.lake.streams() if status.name == name]
    assert (status.status, status.last_error) == ("Running", None)
    [group] = status.waiting_groups
    assert group.startswith("g = 1: ")
    found = story.lake.verify(name)
    assert (found.differing, found.left_out_reason) == ((), "of groups that wait")


def check_goes_on(story: Story, name: str) -> None:
    [status] = [status for status in story.lake.streams() if status.name == name]
    assert (status.status, status.last_error, status.waiting_groups) == ("Running", None, ())
    assert status.recalculating is None
    found = story.lake.verify(name)
    assert (found.differing, found.left_out_rows) == ((), 0)


def of_group(story: Story, name: str, group: int) -> list[tuple[object, ...]]:
    return [row for row in story.found(name, "n > 0") if row[0] == group]


def delete_far(story: Story) -> None:
    DeltaTable(story.path).delete(FAR)
    story.rows = [row for row in story.rows if row.number != 0.5]


OPTIONS = ("FILL_HISTORY", "FILL_HISTORY|EXACT", "FILL_HISTORY|DELETE_RECALC", "WATERMARK(0s)", "EXACT")
YEARS = ("the first year", "the last second")
HOW = ("alone", "together", "is there")
CELLS = [
    # Years take turns: each one goes with each kind, each option and each way, if not with all at once.
    (kind, options, YEARS[(k + o + h) % 2], how)
    for k, kind in enumerate(TRIGGERS)
    for o, options in enumerate(OPTIONS)
    for h, how in enumerate(HOW)
    if (how != "is there" or "FILL_HISTORY" in options)
    and not (kind == "instants" and "DELETE_RECALC" in options)
]
SHORT = [
    ("tumbling", "FILL_HISTORY|EXACT", "the last second", "together"),
    ("tumbling", "FILL_HISTORY", "the first year", "alone"),
    ("sliding", "EXACT", "the first year", "together"),
    ("instants", "FILL_HISTORY", "the last second", "is there"),
]


@pytest.mark.parametrize(
    ("kind", "options", "year", "how"),
    [*SHORT, *(pytest.param(*cell, marks=pytest.mark.long) for cell in CELLS if cell not in SHORT)],
)
def test_a_far_row_stops_its_group_only(story: Story, kind: str, options: str, year: str, how: str) -> None:
    lake = story.lake
    far = [STRANGE[year]]
    if how == "is there":
        story.append(far)
    story.begin([])
    create(story, "s", kind, options)
    story.run()
    if how != "is there":
        before = of_group(story, "s", 1)
        story.append(far if how == "alone" else [*far, *THEN])
        story.run()
        # Without history the far row is the first of its group: far from none, and at an instant that fires.
        begins = (
            kind == "instants"
            and "FILL_HISTORY" not in options
            and (year, how) == ("the first year", "alone")
        )
        assert begins or of_group(story, "s", 1) == before
    if how != "together":
        story.append(THEN)
        story.run()
    check_waits(story, "s")
    if kind == "tumbling" and "FILL_HISTORY" in options:
        assert of_group(story, "s", 2) == expected("tumbling", story.rows, (2,))
    delete_far(story)
    story.append(LATER)
    story.run()
    if "EXACT" not in options:
        check_waits(story, "s")
        lake.sql("RECALCULATE STREAM s RESYNC")
        story.run()
    check_goes_on(story, "s")
    if kind == "tumbling" and "FILL_HISTORY" in options:
        assert story.found("s", "n > 0") == expected("tumbling", story.rows, (1, 2))


def test_streams_that_share_a_query_leave_out_the_same_group(story: Story) -> None:
    lake = story.lake
    story.begin([])
    for name in ("one", "other"):
        create(story, name, "tumbling", "FILL_HISTORY")
    story.run()
    before = of_group(story, "one", 1)
    story.append([STRANGE["the last second"], *THEN])
    story.run()
    for name in ("one", "other"):
        check_waits(story, name)
    assert of_group(story, "other", 2) == expected("tumbling", story.rows, (2,))
    lake.sql("RECALCULATE STREAM one FROM '2025-01-01 00:00:00'")
    story.run()
    check_waits(story, "one")
    assert of_group(story, "one", 1) == before
    assert [failure.code for failure in lake.failures("one")] == ["TOO_MANY_WINDOWS"]


@pytest.mark.parametrize(
    "point", ["C6b", *(pytest.param(point, marks=pytest.mark.long) for point in ("C3", "C7"))]
)
def test_a_crash_leaves_the_same_group_out_and_takes_it_up_once(
    story: Story, spark: SparkSession, point: str
) -> None:
    story.begin([])
    create(story, "s", "tumbling", "FILL_HISTORY|EXACT")
    story.run()
    story.append([STRANGE["the first year"], *THEN])
    crash(story, point, spark)
    story.run()
    check_waits(story, "s")
    assert of_group(story, "s", 2) == expected("tumbling", story.rows, (2,))
    story.lake.sql("START STREAM s")
    story.run()
    check_waits(story, "s")
    delete_far(story)
    story.append(LATER)
    crash(story, "C4", spark)
    story.run()
    check_goes_on(story, "s")
    assert story.found("s", "n > 0") == expected("tumbling", story.rows, (1, 2))


def test_a_group_is_taken_up_with_late_rows_of_before_its_history(story: Story) -> None:
    story.begin([])
    create(story, "s", "tumbling", "FILL_HISTORY('2025-01-01 00:00:20')|EXACT")
    story.run()
    story.append([STRANGE["the last second"], *good((3, 1, 1), (4, 2, 1))])
    story.run()
    check_waits(story, "s")
    delete_far(story)
    story.run()
    check_goes_on(story, "s")
    assert story.found("s", "n > 0") == [(1, START, 1), (2, START, 1)]


def test_a_group_waits_that_would_emit_too_often(story: Story, spark: SparkSession) -> None:
    """Of windows with rows alone there are few; but all are looked at for their events."""
    story.lake = reopened(story, spark, Settings(notify_hosts=("localhost",)))
    story.begin([])
    notify = "NOTIFY('ws://localhost:1/x') ON (WINDOW_OPEN | WINDOW_CLOSE)"
    story.lake.sql(
        f"CREATE STREAM s {TRIGGERS['tumbling']} FROM t PARTITION BY g "
        f"STREAM_OPTIONS(FILL_HISTORY|IGNORE_NODATA_TRIGGER) {notify} "
        "INTO o_s AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
    )
    story.run()
    story.append([STRANGE["the last second"], *THEN])
    story.run()
    check_waits(story, "s")
    assert of_group(story, "s", 2) == expected("tumbling", story.rows, (2,))


def crash(story: Story, point: str, spark: SparkSession) -> None:
    """Run until the point is reached, and go on with a lake that is opened anew."""
    with pytest.raises(SimulatedCrash), crash_at(point):
        story.lake.run()
    story.lake = reopened(story, spark, story.lake.settings)


def reopened(story: Story, spark: SparkSession, settings: Settings) -> Lake:
    root = story.path.replace("elsewhere", "lake")
    return Lake(root, spark=spark, settings=settings, clock=story.clock)


def test_a_resynchronised_stream_of_which_rows_may_go_is_verified(story: Story) -> None:
    story.begin([])
    create(story, "s", "tumbling", "FILL_HISTORY|DELETE_RECALC")
    story.run()
    story.append(THEN)
    story.run()
    story.lake.sql("RECALCULATE STREAM s RESYNC")
    story.run()
    check_goes_on(story, "s")


def test_open_windows_of_a_group_that_waits_are_not_due(story: Story) -> None:
    story.begin([])
    create(story, "s", "tumbling", "FILL_HISTORY|MAX_DELAY(5s)")
    story.run()
    story.append([STRANGE["the last second"], *THEN])
    story.run()
    registry = story.lake._at.registry
    record = registry.stream("main", "s")
    plan, _ = registry.last(record.uuid)
    assert plan is not None
    assert plan.kind == "delay"
    due = {gid for gid, _ in plan.windows}
    assert due
    assert due.isdisjoint(group.gid for group in record.waiting_groups)
