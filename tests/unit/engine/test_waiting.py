"""Which groups wait, how they are told of, and when the stream stops instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.engine.windows.waiting import (
    MOST_WAITING,
    TooManyWindowsError,
    check_groups,
    far_groups,
    let_go_on,
    let_wait,
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
    assert checked([60, 60, None], "site") == ("120 windows would fire, more than 100", [])


def test_a_stream_without_groups_names_none() -> None:
    assert checked([1_000, 1, 1])[1] == []


def test_as_many_as_there_may_be_are_nothing_to_wait_for() -> None:
    check_groups(stream("site"), GROUPS, pa.chunked_array([[40, 60, None]], pa.int64()), 100)


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


def test_more_groups_than_may_wait_do_not(registry: Registry) -> None:
    record = registry.stream("main", "s")
    groups = [WaitingGroup(number, f"g = {number}", 1_000) for number in range(MOST_WAITING + 1)]
    assert let_wait(registry, record, groups) is None
    assert registry.stream("main", "s") == record
