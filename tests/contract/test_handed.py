"""Rows reach Spark the same by a file as through its driver, and the file goes when nobody reads it."""

from __future__ import annotations

import datetime as dt
import gc
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from lakestream.clock import SystemClock
from lakestream.storage.places.layout import Layout
from lakestream.storage.rows import handed
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.sessions import session
from lakestream.storage.sessions.session import frame_of, statement_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ODD_NAMES = ["a", "A", "with space", "dot.ted", "`tick`", "ü,;{}()=\t", "0", "_metadata"]
ROWS = 40

SCALARS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, 0, 127]),
    "int16": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf")]),
    "double": (pa.float64(), [0.0, -0.0, 5e-324, float("nan"), float("inf"), float("-inf")]),
    "text": (pa.string(), ["", " ", "a", "\0", "ü€😀", "x" * 300]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff\xfe", b"x" * 300]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)]),
    "instant": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(year, 10, 10, 1, 2, 3, 456789, dt.UTC) for year in (1, 1582, 1899, 2025, 9999)],
    ),
    "time without a zone": (
        pa.timestamp("us"),
        [dt.datetime(year, 10, 10, 1, 2, 3, 456789) for year in (1, 1582, 1899, 2025)],  # noqa: DTZ001
    ),
    "small decimal": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.00"), Decimal("1.10")]),
    "decimal": (pa.decimal128(18, 0), [Decimal(10**18 - 1), Decimal(-1)]),
    "large decimal": (pa.decimal128(38, 10), [Decimal("-1e27"), Decimal("0.0000000001")]),
    "duration": (pa.duration("us"), [dt.timedelta(-1, 1), dt.timedelta(0), dt.timedelta(9999, 0, 1)]),
}
NOTHING = {"nothing": (pa.null(), [None])}


def a_type(choice: random.Random, depth: int) -> tuple[pa.DataType, Callable[[], Any]]:
    """Return a type, nested up to a depth, and what makes values of it."""
    shape = choice.choice(["scalar", "scalar", "list", "struct", "map"]) if depth else "scalar"
    if shape == "scalar":
        kind, values = choice.choice([*SCALARS.values()])
        return kind, lambda: choice.choice([None, *values])
    inner, value = a_type(choice, depth - 1)
    if shape == "list":
        return pa.list_(inner), lambda: choice.choice([None, [], [value() for _ in range(3)]])
    if shape == "map":
        return pa.map_(pa.string(), inner), lambda: choice.choice([None, [], [("", value()), ("b", value())]])
    other, second = a_type(choice, depth - 1)
    kind = pa.struct([("x", inner), ("y z", other)])
    return kind, lambda: choice.choice([None, {"x": value(), "y z": second()}])


def a_table(seed: int) -> pa.Table:
    """Return rows of columns of odd names and any types."""
    choice = random.Random(seed)
    made = [a_type(choice, 3) for _ in ODD_NAMES]
    columns = [pa.array([value() for _ in range(ROWS)], kind) for kind, value in made]
    return pa.Table.from_arrays(columns, ODD_NAMES)


TABLES = {
    **{
        name: pa.table({"c": pa.array([*values, None] * 3, kind), "n": range(3 * len(values) + 3)})
        for name, (kind, values) in (SCALARS | NOTHING).items()
    },
    **{f"any types {seed}": a_table(seed) for seed in range(6)},
    "lists of nothing": pa.table({"c": pa.array([[], [None], None], pa.list_(pa.null()))}),
    "no columns but nothing": pa.table({"c": pa.nulls(3)}),
    "no rows": a_table(1).schema.empty_table(),
}


@pytest.fixture
def by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed, "MOST_BYTES", -1)


@pytest.mark.usefixtures("by_file")
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_rows_are_the_same_by_a_file(spark: SparkSession, rows: pa.Table) -> None:
    wanted = frame_of(spark, rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
    found = arrow_frame(spark, rows)
    assert found.columns == wanted.columns
    assert [field.dataType for field in found.schema] == [field.dataType for field in wanted.schema]
    assert repr(found.toArrow().to_pydict()) == repr(wanted.toArrow().to_pydict())


@pytest.mark.usefixtures("by_file")
def test_rows_stay_in_order_in_one_partition(spark: SparkSession) -> None:
    rows = pa.table({"n": range(1_000_000)})
    assert arrow_frame(spark, rows).coalesce(1).toArrow()["n"].equals(rows["n"])


def files_in(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


@pytest.mark.usefixtures("by_file")
def test_a_file_goes_when_nobody_reads_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "there")
    monkeypatch.setattr(session, "_own_place", lambda: place)
    monkeypatch.setattr(handed, "_MOST_FILES", 0)  # Spark looks each time
    ours, rows = statement_session(spark), pa.table({"n": [1, 2, 3]})
    arrow_frame(ours, rows).createOrReplaceTempView("viewed")
    derived = arrow_frame(ours, rows).where("n > 1").selectExpr("n + 1 AS n").join(ours.table("viewed"), "n")
    counts: list[int] = []
    while len(counts) < 8 or (counts[-1] > 6 and len(counts) < 40):
        assert arrow_frame(ours, rows).count() == 3
        gc.collect()
        counts.append(len(files_in(place)))
    assert counts[-1] <= 6  # the two that are read, and the last ones, which Spark may still know
    assert derived.collect() == [(3,)]
    assert ours.table("viewed").count() == 3


@pytest.mark.usefixtures("by_file")
def test_what_a_killed_process_left_goes_after_a_day(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_own_place", lambda: str(tmp_path))
    for name, hours in (("old", 25), ("young", 23)):
        (tmp_path / name).touch()
        written = SystemClock().now().timestamp() - 3600 * hours
        os.utime(tmp_path / name, (written, written))
    assert arrow_frame(spark, pa.table({"n": [1]})).count() == 1
    assert {"old", "young"} & {*files_in(str(tmp_path))} == {"young"}


@pytest.mark.usefixtures("by_file")
def test_on_a_cluster_files_lie_in_the_lake(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "is_local", lambda _: False)
    layout, rows = Layout(str(tmp_path / "lake")), pa.table({"n": [1]})
    ours = statement_session(spark, layout.handed)
    frame = arrow_frame(ours, rows)
    assert frame.inputFiles()[0].startswith(f"file://{tmp_path}/lake/_lakestream/handed/")
    assert frame.count() == 1
    # A session of which no place is known, a user's for one, gets them through the driver.
    assert arrow_frame(spark.newSession(), rows).inputFiles() == []


def test_few_rows_go_through_the_driver(spark: SparkSession) -> None:
    few, many = pa.table({"n": range(1000)}), pa.table({"n": range(200_000)})
    assert arrow_frame(spark, few).inputFiles() == []
    assert len(arrow_frame(spark, many).inputFiles()) == 1
