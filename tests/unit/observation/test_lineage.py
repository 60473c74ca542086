"""Which tables and columns continuous queries make of which, and what they are among."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POINTS = (
    "INSERT INTO root.ln.a(time, t, h) VALUES (1, 20, 5)",
    "INSERT INTO root.ln.b(time, t, h) VALUES (1, 20, 5)",
    "INSERT INTO root.sg.c(time, t) VALUES (1, 20)",
)
CQ = "CREATE CQ {name} RESAMPLE EVERY 1m BEGIN {select} END"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path / "lake") as lake:
        for text in POINTS:
            lake.sql(text, dialect="iotdb")
        yield lake


def told(lake: Lake, select: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the tables that a query reads, and each column that it writes with what that is made of."""
    lake.sql(CQ.format(name="q", select=select), dialect="iotdb")
    [query] = lake.lineage().queries
    return query.reads, [
        f"{to.table}.{column.column} {'is' if column.copied else 'of'} "
        f"{', '.join(map(str, column.origins or ()))}"
        for to in query.writes
        for column in to.columns
    ]


@pytest.mark.parametrize(
    ("select", "reads", "columns"),
    [
        pytest.param(
            "SELECT avg(t), max_value(h) INTO root.mean.a(t, top) FROM root.ln.a GROUP BY(1m)",
            ("root.ln",),
            ["root.mean.t of root.ln.t", "root.mean.top of root.ln.h"],
            id="aggregates",
        ),
        pytest.param(
            "SELECT t, t + h INTO root.mean.a(t), root.other.a(both) FROM root.ln.a",
            ("root.ln",),
            ["root.mean.t is root.ln.t", "root.other.both of root.ln.h, root.ln.t"],
            id="two tables",
        ),
        pytest.param(
            "SELECT avg(t) INTO root.mean_${1}.${2}(t) FROM root.ln.*, root.sg.* GROUP BY(1m) "
            "ALIGN BY DEVICE",
            ("root.ln", "root.sg"),
            ["root.mean_ln.t of root.ln.t", "root.mean_sg.t of root.sg.t"],
            id="by device",
        ),
        pytest.param(
            "SELECT avg(x) INTO root.mean.a(x) FROM root.none.a GROUP BY(1m)", (), [], id="no series yet"
        ),
    ],
)
def test_a_query_is_told_of(lake: Lake, select: str, reads: tuple[str, ...], columns: list[str]) -> None:
    assert told(lake, select) == (reads, columns)


def test_where_the_targets_do_not_go_with_the_series_any_more_the_tables_are_told(lake: Lake) -> None:
    assert told(lake, "SELECT t INTO root.mean.a(t) FROM root.ln.new*") == (("root.ln",), [])
    for name in ("new1", "new2"):
        lake.sql(f"INSERT INTO root.ln.{name}(time, t) VALUES (1, 20)", dialect="iotdb")
    [query] = lake.lineage().queries
    assert [(to.table, to.columns) for to in query.writes] == [("root.mean", ())]


def test_series_that_are_there_are_told_by_their_columns(lake: Lake) -> None:
    lake.sql("CREATE TIMESERIES root.mean.a.t TEXT", dialect="iotdb")
    lake.sql("CREATE TIMESERIES root.mean.b.t DOUBLE", dialect="iotdb")
    into = "SELECT avg(t) INTO root.mean.b(t) FROM root.ln.a GROUP BY(1m)"
    assert told(lake, into)[1] == ["root.mean.t_double of root.ln.t"]


def test_of_a_mapped_database_the_tables_are_told(lake: Lake) -> None:
    lake.sql("CREATE TABLE power (ts TIMESTAMP, hall VARCHAR(9), w DOUBLE)")
    lake.sql(
        "CREATE DATABASE root.plant USING TABLE main.power (device = concat('root.plant.', hall), time = ts)",
        dialect="iotdb",
    )
    select = "SELECT avg(w) INTO root.mean.${2}(w) FROM root.plant.* GROUP BY(1m) ALIGN BY DEVICE"
    lake.sql(CQ.format(name="q", select=select), dialect="iotdb")
    [query] = lake.lineage().queries
    assert (query.reads, [(to.table, to.columns) for to in query.writes]) == (
        ("main.power",),
        [("root.mean", ())],
    )


def test_around_a_stream_stands_what_leads_to_it_and_goes_on_from_it(lake: Lake) -> None:
    first = "SELECT avg(t) INTO root.mean.a(t) FROM root.ln.a GROUP BY(1m)"
    lake.sql(CQ.format(name="first", select=first), dialect="iotdb")
    apart = "SELECT avg(t) INTO root.apart.a(t) FROM root.sg.c GROUP BY(1m)"
    lake.sql(CQ.format(name="apart", select=apart), dialect="iotdb")
    lake.sql("CREATE TIMESERIES root.mean.a.t DOUBLE", dialect="iotdb")
    lake.sql(
        "CREATE STREAM s INTERVAL(1h) SLIDING(1h) FROM root.mean INTO o AS SELECT _twstart AS w, max(t) AS t "
        "FROM %%trows"
    )
    found = lake.lineage("s", columns=True)
    assert [one.query for one in found.queries] == ["first"]
    assert [name for name, _ in found.tables] == ["main.o", "root.ln", "root.mean"]
    assert [one.query for one in lake.lineage().queries] == ["apart", "first"]
