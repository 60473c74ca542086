"""Windows within windows: they go along rows that are sorted once, and give what each by itself gives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import parse_one

from lakestream.storage.small.dialect.query import duckdb_sql
from lakestream.storage.small.ordering import sort_once
from lakestream.storage.small.session import FEW_ROWS, SmallSession, large_room
from lakestream.triggers.cut import CountCut, EventCut, SessionCut, StateCut

if TYPE_CHECKING:
    from lakestream.storage.small.session import Room
    from lakestream.triggers.cut import Cut

CUTS = (
    SessionCut(gap=3_000),
    StateCut(("state",)),
    EventCut(("a", "b")),
    CountCut(("a",), count=3, step=3),
)
ROOMS = (FEW_ROWS, large_room(0))


def rows_of(cut: Cut, count: int = 3_000, seed: int = 5) -> pa.Table:
    """Return rows in no order; those that are equal in what orders them are alike."""
    chance = random.Random(seed)
    flag: list[bool | None] = [None, True, False, False]
    states: list[str | None] = [None, None, "a", "b"]
    looked_at: list[list[Any]] = [states] if isinstance(cut, StateCut) else [[*flag]] * len(cut.expressions)
    gids = [chance.choice([None, -1, 2, 3]) for _ in range(count)]
    times = [chance.randrange(2 * count) * 1000 for _ in range(count)]
    columns = {
        "_ls_gid": pa.array(gids, pa.int64()),
        "_ls_ts": pa.array(times, pa.int64()),
    }
    for name, values in zip(cut.columns, looked_at, strict=True):
        columns[name] = pa.array([chance.choice(values) for _ in range(count)])
    return _with_counts(pa.table(columns))


def _with_counts(rows: pa.Table) -> pa.Table:
    """Return rows of which a cut that counts knows what it had of each group, and which are new."""
    counted = pc.add(pc.fill_null(rows["_ls_gid"], -1), 1)
    rows = rows.append_column("_ls_counted", counted)
    return rows.append_column("_ls_is_new", pc.greater(rows["_ls_ts"], 600_000))


def cut_by(session: SmallSession, cut: Cut, rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows with their windows, in order of their values."""
    query = duckdb_sql(cut.runs_sql("SELECT * FROM cut"))
    found = session.answered(query.over({"cut": session.said("cut", rows)}))
    names = [*rows.column_names, "_ls_run", "_ls_ends", "_ls_count", "_ls_tied"]
    session.clear()
    return sorted(found.select(names).to_pylist(), key=str)


@pytest.mark.parametrize("room", ROOMS, ids=["few", "many"])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: type(cut).__name__)
def test_windows_that_go_along_sorted_rows_give_what_each_by_itself_gives(cut: Cut, room: Room) -> None:
    rows, session = rows_of(cut), SmallSession(room)
    sql = duckdb_sql(cut.runs_sql("SELECT * FROM cut")).sql
    assert (sql.count("PARTITION BY"), sql.count("ORDER BY")) == (0, 1)
    along = cut_by(session, cut, rows)
    with patch("lakestream.storage.small.dialect.query.sort_once"):
        assert along == cut_by(session, cut, rows)


def test_rows_of_one_time_are_in_one_session_in_whichever_order_they_come() -> None:
    session, chance = SmallSession(), random.Random(5)
    for _ in range(20):
        columns = {
            "_ls_gid": [chance.randrange(6) for _ in range(400)],
            "_ls_ts": [chance.randrange(200) * 1000 for _ in range(400)],
            "n": [*range(400)],
        }
        found = cut_by(session, SessionCut(gap=5_000), _with_counts(pa.table(columns)))
        windows = {(row["_ls_gid"], row["_ls_ts"], row["_ls_run"]) for row in found}
        assert len(windows) == len({(gid, time) for gid, time, _ in windows})


@pytest.mark.parametrize(
    ("columns", "order"),
    [
        ("*, sum(x) {over} AS y", "1"),
        ("x, lag(x) {over} AS y", "1"),
        ("*, lag(x) {over} AS y, lag(x) OVER (ORDER BY t) AS z", "2"),
        ("*, lag(x, 1, 0) {over} AS y", "1"),
    ],
)
def test_what_does_not_go_along_is_left_as_it_is(columns: str, order: str) -> None:
    text = f"SELECT {columns} FROM (SELECT * FROM r)".format(over="OVER (PARTITION BY g ORDER BY t)")
    query = parse_one(text, dialect="spark")
    sort_once(query)
    assert query.sql("spark") == parse_one(text, dialect="spark").sql("spark")
    assert query.sql("spark").count("ORDER BY") == int(order)
