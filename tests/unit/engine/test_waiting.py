"""Which groups wait, how they are shown, and when the stream stops instead."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.engine.windows.waiting import (
    MOST_WAITING,
    Passing,
    TooManyWindowsError,
    check_groups,
    check_windows,
    far_groups,
    is_taking_up,
    let_go_on,
    let_wait,
    taking_up,
    windows_between,
)
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.registry import Compiled, Registry, StreamRecord, WaitingGroup

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = pa.table({"gid": [7, 8, 9], "_ls_g1": ["a", None, "c"]})


def stream(*keys: str) -> Any:
    """Return as much of a stream as is asked for: what it groups by."""
    columns = tuple(f"_ls_g{number}" for number, _ in enumerate(keys, 1))
    listed = [SimpleNamespace(expression=SimpleNamespace(sql=key)) for key in keys]
    definition = SimpleNamespace(partition_by=listed)
    return SimpleNamespace(
        definition=definition, group_columns=columns, counting_rows="", step_us=10, groups=keys
    )


def checked(windows: list[int | None], *keys: str) -> tuple[str, list[str]]:
    with pytest.raises(TooManyWindowsError) as raised:
        check_groups(stream(*keys), GROUPS, pa.chunked_array([windows], pa.int64()), 100)
    return raised.value.message, [*map(str, raised.value.groups)]


def test_the_groups_that_make_too_many_windows_are_named() -> None:
    message, groups = checked([1_000, 2_000, 5], "site")
    assert groups == ["site = a: 1,000 windows", "site = NULL: 2,000 windows"]
    assert message == f"3,005 windows would fire, more than 100 ({'; '.join(groups)})"


def test_where_only_all_of_them_make_too_many_none_is_named() -> None:
    assert checked([100, 60, None], "site")[1] == []
    assert checked([60, 60, None], "site") == ("120 windows would fire, more than 100", [])


@pytest.mark.parametrize("windows", [[1_000, 2_000, 5], [60, 60, None], [5, 101, 3], [3, 5, 101]])
def test_groups_in_parts_are_counted_and_named_as_all_at_once(windows: list[int | None]) -> None:
    passing = Passing(stream("site"), 100)
    for at, count in enumerate(windows):
        passing.add(GROUPS.slice(at, 1), pa.chunked_array([[count]], pa.int64()))
    with pytest.raises(TooManyWindowsError) as raised:
        passing.check()
    assert (raised.value.message, [*map(str, raised.value.groups)]) == checked(windows, "site")


def test_a_stream_without_groups_names_none() -> None:
    assert checked([1_000, 1, 1])[1] == []


def test_as_many_as_there_may_be_are_nothing_to_wait_for() -> None:
    check_groups(stream("site"), GROUPS, pa.chunked_array([[40, 60, None]], pa.int64()), 100)
    check_groups(stream("site"), GROUPS.slice(0, 0), pa.chunked_array([[]], pa.int64()), 100)


def test_no_more_windows_fire_at_once_than_there_may() -> None:
    check_windows(100, 100)
    with pytest.raises(TooManyWindowsError, match="101 windows would fire, more than 100") as raised:
        check_windows(101, 100)
    assert (raised.value.code, raised.value.groups) == ("TOO_MANY_WINDOWS", ())


def test_a_group_of_several_keys_is_named_by_all_of_them() -> None:
    groups = GROUPS.append_column("_ls_g2", pa.array([1, 2, None]))
    with pytest.raises(TooManyWindowsError) as raised:
        check_groups(stream("site", "v % 2"), groups, pa.chunked_array([[5, 5, 101]], pa.int64()), 100)
    assert raised.value.groups == (WaitingGroup(9, "site = c, v % 2 = NULL", 101),)


def test_of_many_groups_the_first_three_are_named() -> None:
    groups = [WaitingGroup(number, f"g = {number}", 1_000) for number in range(5)]
    message = TooManyWindowsError(5_000, 100, groups).message
    assert "(g = 0: 1,000 windows; g = 1: 1,000 windows; g = 2: 1,000 windows; …)" in message
    assert "…" not in TooManyWindowsError(3_000, 100, groups[:3]).message


@pytest.mark.parametrize(
    ("first", "newest", "windows"), [(0, 99, 9), (0, 100, 10), (100, 0, 0), (50, 50, 0), (-15, 15, 3)]
)
def test_windows_lie_a_step_apart_and_none_backwards(first: int, newest: int, windows: int) -> None:
    low, high = (pa.chunked_array([[at]], pa.int64()) for at in (first, newest))
    assert windows_between(low, high, 10).to_pylist() == [windows]


def test_groups_whose_windows_are_nearly_all_empty_or_that_have_a_gap_are_far() -> None:
    gaps = pa.table({"gid": [3, 1, 2], "windows": [101, 100, 100]})
    spark: Any = SimpleNamespace(sql=lambda _: SimpleNamespace(toArrow=lambda: gaps))
    groups = pa.table(
        {
            "gid": [1, 2, 3, 4],
            "_ls_g1": ["empty", "dense", "apart", "short"],
            "first": [0, 0, 0, 0],
            "newest": [50_010, 50_010, 50_010, 1_000],
            "rows": [5, 6, 6, 1],
        }
    )
    found = [WaitingGroup(1, "site = empty", 5_001), WaitingGroup(3, "site = apart", 5_001)]
    assert far_groups(spark, stream("site"), groups, 100) == found
    assert far_groups(spark, stream(), groups, 100) == []


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    layout = Layout(str(tmp_path / "lake"))
    layout.initialise()
    found = Registry(layout)
    compiled = Compiled("by_row", exact=False)
    named = ("u", "main", "s", "CREATE STREAM …")
    found.add(StreamRecord(*named, "Running", 1, 2, "id", "main.o", "main.t", "UTC", compiled))
    return found


def test_what_waits_is_registered_until_it_goes_on(registry: Registry) -> None:
    one, other = WaitingGroup(7, "site = a", 1_000), WaitingGroup(8, "site = b", 2_000)
    record = let_wait(registry, registry.stream("main", "s"), [one])
    assert record is not None
    let_wait(registry, record, [one, other])
    known = registry.stream("main", "s")
    assert known.waiting_groups == (one, other)
    assert let_go_on(registry, known, [7]).waiting_groups == (other,)
    assert let_go_on(registry, registry.stream("main", "s"), [8]).waiting_groups == ()


def test_groups_are_taken_up_before_the_first_part_of_their_recalculation(registry: Registry) -> None:
    job = taking_up(registry.stream("main", "s"), [7, 8], 12, 99)
    assert (job.uuid, job.start_us, job.end_us, job.resync, job.status) == ("u", None, None, False, "Waiting")
    assert (job.requested_us, job.groups, job.asked_at) == (99, (7, 8), 12)
    assert is_taking_up(job)
    assert not is_taking_up(replace(job, place=3))
    assert not is_taking_up(replace(job, groups=None))


def test_more_groups_than_may_wait_do_not(registry: Registry) -> None:
    record = registry.stream("main", "s")
    groups = [WaitingGroup(number, f"g = {number}", 1_000) for number in range(MOST_WAITING + 1)]
    assert let_wait(registry, record, groups) is None
    assert registry.stream("main", "s") == record
