"""TDengine's functions of one row give what its manual says, in two queries; those of windows both ways."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakestream import Lake, ManualClock, Settings
from lakestream.compute.expressions import functions
from lakestream.compute.expressions.functions import REFUSED
from lakestream.compute.expressions.row_calls import FORMS
from lakestream.errors import LakestreamError
from lakestream.language.common.aggregates import OWN_AGGREGATES
from lakestream.language.common.functions import OWN, SAME, Meaning
from lakestream.language.common.templates import made
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression
from lakestream.language.model import Fragment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = yaml.safe_load(Path(__file__).with_name("functions.yaml").read_text())
NOW = made("TIMESTAMP '2025-03-01 17:30:00Z'", {})


def meant(expression: str, zone: str) -> str:
    fragment = Fragment(expression)
    return in_spark(parse_expression(fragment), Meaning(zone, NOW), fragment).sql("spark")


def wrong(found: Any, kind: str, case: list[Any]) -> bool:
    wanted = case[1]
    close = isinstance(wanted, float) and found is not None and math.isclose(found, wanted, abs_tol=1e-12)
    return not (close or (found == wanted and type(found) is type(wanted))) or kind != (*case, kind)[2]


@pytest.mark.spark
@pytest.mark.parametrize(("part", "zone"), [("cases", "UTC"), ("shanghai", "Asia/Shanghai")])
def test_figures(spark: SparkSession, part: str, zone: str) -> None:
    columns = ", ".join(f"{sql} AS {name}" for name, sql in DATA["columns"].items())
    cases = DATA[part]
    results = ", ".join(f"{meant(case[0], zone)} AS c{number}" for number, case in enumerate(cases))
    # Kept apart from the constants, so that functions run over columns as well as are folded.
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("ls_functions")
    frame = spark.sql(f"SELECT {results} FROM ls_functions")
    row = frame.collect()[0]
    failed = [
        f"{case[0]}: {found!r} ({kind}), wanted {case[1:]}"
        for case, found, (_, kind) in zip(cases, row, frame.dtypes, strict=True)
        if wrong(found, kind, case)
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(("expression", "code", "word"), DATA["refused"])
def test_refused(expression: str, code: str, word: str) -> None:
    with pytest.raises(LakestreamError) as caught:
        meant(expression, "UTC")
    assert caught.value.code == code
    assert word in str(caught.value)
    assert caught.value.place is not None


def test_the_document_names_every_function() -> None:
    text = Path("docs/calculations.md").read_text()
    named = set(re.findall(r"`([a-z0-9_]+)", text))
    assert {name.split(" ")[-1] for name in OWN | SAME | OWN_AGGREGATES} - named == set()


def test_every_function_has_a_figure_or_is_refused() -> None:
    said = " ".join(case[0].lower() for part in ("cases", "refused") for case in DATA[part])
    one_sided = {"leading trim", "trailing trim"}
    missing = {name for name in (OWN | SAME) - one_sided if f"{name}(" not in said}
    assert missing == {"rand", "aes_decrypt", "sm4_encrypt", "client_version", "server_status"} | {
        "current_user", "st_geomfromtext", "st_astext", "st_intersects", "st_equals", "st_touches",
        "st_covers", "st_containsproperly",
    }  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("transport", ["arrow", "spark"])
def test_picked_rows_and_the_wall_clock_are_verified(
    tmp_path: Path, spark: SparkSession, transport: str
) -> None:
    clock = ManualClock(datetime(2025, 6, 1, tzinfo=UTC))
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(transport=transport), clock=clock) as lake:
        lake.sql("CREATE TABLE nt (ts TIMESTAMP, v INT)")
        picked = "first(ts), last(_c0), first_row(v), last_row(_rowts), now"
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(5s) FROM nt INTO o (w, a, b, c, d, at) "
            f"AS SELECT _twstart, {picked} FROM %%trows"
        )
        lake.sql(
            "CREATE STREAM filtered INTERVAL(10s) SLIDING(10s) FROM nt INTO p (w, n) "
            "AS SELECT _twstart, count(*) FROM nt WHERE ts > now - 1d"
        )
        for second, value, days in ((1, "NULL", 0), (7, "3", 0), (12, "4", 0), (31, "5", 2)):
            clock.advance(timedelta(days=days))
            lake.sql(f"INSERT INTO nt VALUES ('2025-05-31 12:00:{second:02}', {value})")
            lake.run()
        found = lake.verify("s")
        assert found.holds
        assert (found.equal_rows, found.left_out_columns) == (6, ("at",))
        # The first window counted 3 rows of the last day, the others none: VERIFY has no such day, and
        # counts all of them as left out.
        filtered = lake.verify("filtered")
        assert filtered.holds
        assert (filtered.equal_rows, filtered.left_out_rows) == (0, 3)
        assert lake.sql("SELECT n FROM p ORDER BY w").fetchall() == [(3,), (0,), (0,)]
        row = lake.sql("SELECT a, b, c, d, at FROM o ORDER BY w LIMIT 1 OFFSET 1").fetchall()[0]
        assert [str(value)[14:19] for value in (row[0], row[1], row[3])] == ["00:01", "00:07", "00:07"]
        assert (row[2], str(row[4])[:19]) == (None, "2025-06-01 00:00:00")


def test_rows_are_changed_by_the_clock_and_by_functions_as_queries_have_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    clock = ManualClock(datetime(2025, 6, 2, 17, tzinfo=UTC))
    settings = Settings(timezone="Asia/Shanghai")
    with Lake(tmp_path / "lake", spark=spark, settings=settings, clock=clock) as lake:
        lake.sql("CREATE TABLE nt (ts TIMESTAMP, v INT, s VARCHAR(9))")
        lake.sql(
            "INSERT INTO nt VALUES (now - 30m, 1, 'a') ('2025-06-02 23:59:59', 2, 'b') "
            "(1748800000000, 3, 'c')"
        )
        # There it is one o'clock on 3 June; the second row is of the day before, the third of 2 June, 01:46.
        assert (
            "updated 1 row" in lake.sql("UPDATE nt SET v = 9 WHERE ts >= NOW() - 1h AND ts >= today").message
        )
        assert "deleted 1 row" in lake.sql("DELETE FROM nt WHERE ts < today() - 22h").message
        for condition, rows in (
            *(("length(s) > 1", 0), ("length(s) = 1", 2)),
            *(("CAST(ts AS BIGINT) > 1748800000000", 2), ("CAST(s AS INT) = 0", 2)),
        ):
            assert lake.sql(f"SELECT count(*) FROM nt WHERE {condition}").fetchall() == [(rows,)]
            assert f"updated {rows} row" in lake.sql(f"UPDATE nt SET v = v WHERE {condition}").message
        for nothing in ("concat(s, NULL) = 'a'", "s = NULL", "v > NULL", "v NOT IN (1, NULL)", "NULL"):
            assert "deleted 0 rows" in lake.sql(f"DELETE FROM nt WHERE {nothing}").message
        lake.sql("UPDATE nt SET v = CAST(v AS DOUBLE) / 2, s = concat(upper(s), '!') WHERE sqrt(v) = 3")
        assert lake.sql("SELECT v, s FROM nt WHERE s LIKE '%!'").fetchall() == [(4, "A!")]


MANUAL = frozenset(
    [
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "floor",
        "greatest",
        "least",
        "log",
        "pow",
        "round",
        "sin",
        "sqrt",
        "tan",
        "pi",
        "truncate",
        "exp",
        "ln",
        "mod",
        "rand",
        "sign",
        "degrees",
        "radians",
        "crc32",
        "char_length",
        "concat",
        "concat_ws",
        "find_in_set",
        "length",
        "like_in_set",
        "lower",
        "ltrim",
        "regexp_in_set",
        "rtrim",
        "trim",
        "substring",
        "substr",
        "substring_index",
        "upper",
        "char",
        "ascii",
        "position",
        "replace",
        "repeat",
        "to_base64",
        "from_base64",
        "md5",
        "sha1",
        "sha",
        "sha2",
        "mask_full",
        "mask_partial",
        "mask_none",
        "sm4_encrypt",
        "sm4_decrypt",
        "aes_encrypt",
        "aes_decrypt",
        "cast",
        "to_iso8601",
        "to_json",
        "to_unixtimestamp",
        "to_char",
        "to_timestamp",
        "now",
        "timediff",
        "timetruncate",
        "timezone",
        "today",
        "week",
        "weekofyear",
        "weekday",
        "dayofweek",
        "date",
        "apercentile",
        "avg",
        "count",
        "elapsed",
        "leastsquares",
        "spread",
        "stddev",
        "stddev_pop",
        "std",
        "stddev_samp",
        "variance",
        "var_pop",
        "var_samp",
        "group_concat",
        "sum",
        "hyperloglog",
        "histogram",
        "percentile",
        "if",
        "ifnull",
        "nvl",
        "nullif",
        "nvl2",
        "isnull",
        "isnotnull",
        "coalesce",
        "case",
        "corr",
        "bottom",
        "first",
        "last",
        "last_row",
        "max",
        "min",
        "mode",
        "sample",
        "tail",
        "top",
        "unique",
        "cols",
        "csum",
        "derivative",
        "diff",
        "irate",
        "fill_forward",
        "mavg",
        "statecount",
        "stateduration",
        "twa",
        "interp",
        "database",
        "client_version",
        "server_version",
        "server_status",
        "current_user",
        "st_geomfromtext",
        "st_astext",
        "st_intersects",
        "st_equals",
        "st_touches",
        "st_covers",
        "st_contains",
        "st_containsproperly",
        "forecast",
    ]
)
"""The functions of TDengine's manual."""

LIKE_SPARK = {"avg", "count", "sum", "min", "max", "corr", "first", "last", "mode", "cast", "case"}
"""Functions that sqlglot has classes of its own for, which mean the same or get their meaning by class."""


def test_no_function_of_the_manual_falls_through() -> None:
    known = OWN | SAME | OWN_AGGREGATES | LIKE_SPARK | REFUSED | {*FORMS} | {*functions._RULES}
    assert known >= MANUAL
