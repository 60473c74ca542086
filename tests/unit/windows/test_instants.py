"""Which groups an instant of the clock fires for, and what its neighbours are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.engine.base.state import GroupState
from lakestream.engine.windows.family import TickInput
from lakestream.engine.windows.periodic import FireInstants
from lakestream.storage.records.registry import Instant
from tests.unit.windows.streams import new, plan, target

if TYPE_CHECKING:
    from lakestream.engine.reading.relations import Relations

BY_TABLE, ONE_GROUP = "tbname", ""


def fired(by: str, written: dict[int, str], known: dict[int, str], *, only_written: bool = False) -> Any:
    """Return the instant at 20 for groups (number, name): those written since 10, and all there are."""
    of = new("PERIOD(10s)", by=by)
    tick = plan("period", upto=8, clock_us=20, instant=Instant(10, 30, 0))
    relations = cast("Relations", SimpleNamespace(stream=of, plan=tick))
    state = GroupState(groups(by, known) if known else None)
    step = FireInstants("", has_come=True, only_written=only_written)
    given = TickInput(relations, target(of), state, 1_000)
    return step._instants(given, state, groups(by, written))


def groups(by: str, named: dict[int, str]) -> pa.Table:
    found = pa.table({"gid": pa.array([*named], pa.int64())})
    names = pa.array([*named.values()], pa.string())
    return found.append_column("_ls_g1", names) if by else found


@pytest.mark.parametrize(
    ("by", "written", "known", "only_written", "gids"),
    [
        (BY_TABLE, {2: "b"}, {1: "a", 2: "b"}, False, [1, 2]),
        (BY_TABLE, {2: "b"}, {1: "a", 2: "b"}, True, [2]),
        (BY_TABLE, {}, {1: "a"}, True, []),
        (BY_TABLE, {}, {}, False, []),
        # Without PARTITION BY there is one group, whether it has ever had a row or not.
        (ONE_GROUP, {}, {}, False, [0]),
        (ONE_GROUP, {0: ""}, {0: ""}, False, [0]),
        (ONE_GROUP, {}, {0: ""}, True, []),
    ],
)
def test_an_instant_fires_for_every_group_there_is_or_for_those_with_rows(
    by: str, written: dict[int, str], known: dict[int, str], only_written: bool, gids: list[int]
) -> None:
    assert fired(by, written, known, only_written=only_written)["gid"].to_pylist() == gids


def test_an_instant_knows_the_one_before_and_the_one_after() -> None:
    found = fired(BY_TABLE, {}, {1: "a"}).to_pylist()
    assert found == [{"gid": 1, "_ls_g1": "a", "k": 20, "c": 8, "low": 10, "high": 20, "after": 30}]
