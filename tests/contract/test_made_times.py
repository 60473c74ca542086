"""Event times that are made of a table's columns: texts, fields of structs, expressions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2025, 3, 30, 0, 59, tzinfo=UTC)
"""A minute before the clock of the zone goes forward."""
FEED = {"delta.enableChangeDataFeed": "true"}


@dataclass(frozen=True)
class Form:
    """A form of ``TIMESTAMP BY``, how its columns hold an instant, and Spark's own way to it.

    ``of`` gives the columns of rows at instants, None for one that is no time.
    """

    by: str
    name: str
    of: Callable[[list[datetime | None]], dict[str, pa.Array]]
    own: str


def local(at: datetime, form: str) -> str:
    return at.astimezone(ZONE).strftime(form)


def texts(form: str) -> Callable[[list[datetime | None]], dict[str, pa.Array]]:
    return lambda times: {"at": pa.array(["none" if t is None else local(t, form) for t in times])}


def iso(times: list[datetime | None]) -> dict[str, pa.Array]:
    """Return texts in ISO 8601: with Z, without an offset, with one, and a time without a date for none."""
    told = (
        lambda t: f"{t:%Y-%m-%dT%H:%M:%S.%f}Z",
        lambda t: local(t, "%Y-%m-%d %H:%M:%S.%f"),
        lambda t: f"{t + timedelta(hours=5, minutes=30):%Y-%m-%dT%H:%M:%S.%f}+0530",
    )
    return {"at": pa.array(["12:30" if t is None else told[n % 3](t) for n, t in enumerate(times)])}


def nested(name: str, kind: pa.DataType, of: Callable[[datetime], Any]) -> Callable[..., dict[str, pa.Array]]:
    """Return a struct whose first row without a time has no struct either."""

    def columns(times: list[datetime | None]) -> dict[str, pa.Array]:
        rows = [None if t is None else {"id": n, "in": {name: of(t)}} for n, t in enumerate(times)]
        inner = pa.struct({name: kind})
        return {"meta": pa.array(rows, pa.struct({"id": pa.int64(), "in": inner}))}

    return columns


def parts(times: list[datetime | None]) -> dict[str, pa.Array]:
    return {
        "day": pa.array([None if t is None else local(t, "%Y-%m-%d") for t in times], pa.string()),
        "Clock": pa.array([None if t is None else local(t, "%H%M%S") for t in times], pa.string()),
    }


BERLIN = f"to_utc_timestamp({{0}}, '{ZONE.key}')"
HAS_ZONE = "at LIKE '%Z' OR at LIKE '%+0530'"
FORMS = {
    "pattern": Form(
        "at FORMAT 'dd/mm/yyyy hh24:mi:ss'",
        "at",
        texts("%d/%m/%Y %H:%M:%S"),
        BERLIN.format("to_timestamp(at, 'dd/MM/yyyy HH:mm:ss')"),
    ),
    "iso": Form(
        "at FORMAT ISO8601",
        "at",
        iso,
        f"CASE WHEN at LIKE '%-%' THEN IF({HAS_ZONE}, CAST(at AS TIMESTAMP), "
        f"{BERLIN.format('CAST(at AS TIMESTAMP)')}) END",
    ),
    "field": Form("meta.in.ts", "ts", nested("ts", pa.timestamp("us", "UTC"), lambda t: t), "meta.in.ts"),
    "count": Form(
        "meta.in.`n o` MILLISECONDS AS at",
        "at",
        nested("n o", pa.int64(), lambda t: int(t.timestamp() * 1_000)),
        "timestamp_millis(meta.in.`n o`)",
    ),
    "naive": Form(
        "meta.in.l AS `o'clock`",
        "o'clock",
        nested("l", pa.timestamp("us"), lambda t: t.astimezone(ZONE).replace(tzinfo=None)),
        BERLIN.format("CAST(meta.in.l AS TIMESTAMP)"),
    ),
    "expression": Form(
        "(to_timestamp(concat(day, CLOCK), 'yyyy-mm-ddhh24miss'))",
        "ts",
        parts,
        BERLIN.format("to_timestamp(concat(day, Clock), 'yyyy-MM-ddHHmmss')"),
    ),
    "counted": Form(
        "(meta.in.n + 0 * meta.id) SECONDS",
        "ts",
        nested("n", pa.int32(), lambda t: int(t.timestamp())),
        "timestamp_seconds(meta.in.n)",
    ),
}


class World:
    """A lake with a table of others whose event time is made by a form."""

    def __init__(
        self, root: Path, spark: SparkSession, form: Form, transport: Literal["arrow", "spark"]
    ) -> None:
        self.form, self.path, self.spark = form, str(root / "theirs"), spark
        self.name = f"`{form.name}`"
        settings = Settings(transport=transport, timezone=ZONE.key, max_commits_per_tick=2)
        self.lake = Lake(root / "lake", spark=spark, settings=settings)
        self.write(0, 1, None, 12, 13, 47)
        self.lake.sql(f"CREATE TABLE t LOCATION '{self.path}' TIMESTAMP BY {form.by}")

    def write(self, *seconds: float | None) -> None:
        """Append rows at seconds, whose value is the second (-1: no time)."""
        times = [None if s is None else START + timedelta(seconds=s) for s in seconds]
        values = pa.array([-1 if s is None else int(s) for s in seconds], pa.int64())
        write_deltalake(
            self.path, pa.table({"v": values, **self.form.of(times)}), mode="append", configuration=FEED
        )

    def expected(self) -> list[tuple[Any, ...]]:
        """Return Spark's own GROUP BY of the table as it is, for the windows that are done."""
        rows = self.spark.read.format("delta").load(self.path)
        rows.selectExpr(f"{self.form.own} AS t", "v").where("t IS NOT NULL").createOrReplaceTempView("own")
        found = self.spark.sql(
            "SELECT timestamp_seconds(unix_seconds(t) div 10 * 10) AS w, count(*) AS n, sum(v) AS s "
            "FROM own GROUP BY 1 HAVING w + INTERVAL 10 SECONDS <= (SELECT max(t) FROM own) ORDER BY w"
        )
        return [tuple(row.values()) for row in found.toArrow().to_pylist()]

    def output(self, name: str) -> list[tuple[Any, ...]]:
        self.lake.run()
        assert [one.last_error for one in self.lake.streams() if one.last_error] == []
        return self.lake.sql(f"SELECT w, n, s FROM {name} ORDER BY w").fetchall()


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    form, transport = request.param
    made = World(tmp_path, spark, FORMS[form], transport)
    yield made
    made.lake.close()


def each(*both: str) -> pytest.MarkDecorator:
    """Return every form by the way that a small table takes, and those that have two by the other one."""
    cases = [(form, "arrow") for form in FORMS] + [(form, "spark") for form in both]
    return pytest.mark.parametrize("world", cases, indirect=True, ids=["-".join(case) for case in cases])


STREAM = (
    "CREATE STREAM {0} INTERVAL(10s) SLIDING(10s) FROM t STREAM_OPTIONS({1} | IGNORE_NODATA_TRIGGER) "
    "INTO {0}_o AS SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM %%trows"
)


@each("field", "count", "naive")
def test_a_stream_equals_sparks_own_group_by(world: World) -> None:
    world.lake.sql(STREAM.format("s", "FILL_HISTORY | EXACT"))
    assert world.output("s_o") == world.expected()
    world.write(3, 48, 59.5, None, 60)
    world.write(71, 125)
    first = world.output("s_o")
    assert first == world.expected()
    DeltaTable(world.path).delete("v = 12 OR v = 59")
    DeltaTable(world.path).update({"v": "700"}, predicate="v = 71")
    world.write(90)
    assert world.output("s_o") == world.expected() != first
    verified = world.lake.verify("s")
    assert verified.holds
    assert verified.equal_rows == len(world.expected())
