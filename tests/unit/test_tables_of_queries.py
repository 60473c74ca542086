"""CREATE TABLE … AS SELECT, DESCRIBE HISTORY and SHOW TBLPROPERTIES; nothing here starts Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakestream import Lake, Settings
from lakestream.errors import LakestreamError
from lakestream.storage.columns.types import spark_type_in
from lakestream.storage.delta import insert_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = """
CREATE STABLE t (ts TIMESTAMP, v INT, d DECIMAL(5,1)) TAGS (g VARCHAR(5));
INSERT INTO a USING t TAGS ('x') VALUES ('2026-01-01', 1, 1.5), ('2026-01-02', 2, NULL);
INSERT INTO b USING t TAGS ('y') VALUES ('2026-01-01', 3, 2.5)
"""
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", settings=Settings(jars=tmp_path)) as lake:  # no jars, no Spark
        lake.sql(TABLES)
        yield lake


def test_a_table_has_the_rows_of_its_query_all_of_them(lake: Lake) -> None:
    said = lake.sql("CREATE TABLE c COMMENT 'kept' AS SELECT ts, v, d, g, v > 1 AS high FROM t WHERE v <> 2")
    assert (said.message, said.written) == ("created table main.c, inserted 2 rows", 2)
    rows = lake.sql("SELECT * FROM c ORDER BY v").fetchall()
    assert rows == [(FIRST, 1, Decimal("1.5"), "x", False), (FIRST, 3, Decimal("2.5"), "y", True)]
    described = lake.sql("DESCRIBE c")
    assert [row[1] for row in described.fetchall()] == [
        "TIMESTAMP",
        "INT",
        "DECIMAL(5,1)",
        "STRING",
        "BOOLEAN",
    ]
    assert described.message == "main.c: kept"
    lake.sql("INSERT INTO c (ts, v) VALUES ('2026-01-01', 1)")
    assert lake.sql("SELECT count(*) FROM c").fetchall() == [(3,)]


def test_a_table_of_a_query_may_have_no_rows_and_no_time(lake: Lake) -> None:
    assert lake.sql("CREATE TABLE n AS SELECT v FROM t WHERE v > 9").message == (
        "created table main.n, inserted 0 rows"
    )
    assert lake.sql("DESCRIBE n").fetchall() == [("v", "INT", "", "")]


def test_a_table_that_is_there_stays(lake: Lake) -> None:
    assert "stays" in lake.sql("CREATE TABLE IF NOT EXISTS t AS SELECT nosuch FROM t").message
    with pytest.raises(LakestreamError, match="TABLE_EXISTS"):
        lake.sql("CREATE TABLE t AS SELECT ts FROM t")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT ts, count(*) FROM t GROUP BY ts", "COLUMN_NAME_MISSING"),
        ("SELECT ts, v AS `a b` FROM t", "COLUMN_NAME_MISSING"),
        ("SELECT nosuch FROM t", "QUERY_INVALID"),
    ],
)
def test_what_is_refused_leaves_no_table(lake: Lake, query: str, code: str) -> None:
    with pytest.raises(LakestreamError, match=code):
        lake.sql(f"CREATE TABLE c AS {query}")
    assert "c" not in [name for name, _ in lake.sql("SHOW TABLES").fetchall()]


def test_a_table_that_cannot_be_filled_is_not_left(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> int:
        raise LakestreamError("COMMIT_FAILED", "the disk is full")

    monkeypatch.setattr("lakestream.statements.edits.insert_rows", fail)
    with pytest.raises(LakestreamError, match="COMMIT_FAILED"):
        lake.sql("CREATE TABLE c AS SELECT ts, v FROM t")
    monkeypatch.setattr("lakestream.statements.edits.insert_rows", insert_rows)
    assert lake.sql("CREATE TABLE c AS SELECT ts, v FROM t").written == 3


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("us"), None),
        (pa.decimal128(20, 3), "decimal(20,3)"),
        (pa.string_view(), "string"),
        (pa.large_string(), "string"),
        (pa.binary(), "binary"),
        (pa.int8(), "tinyint"),
        (pa.float32(), "float"),
        (pa.date32(), "date"),
        (pa.bool_(), "boolean"),
        (pa.null(), None),
        (pa.duration("us"), None),
        (pa.list_(pa.int32()), None),
    ],
)
def test_a_column_is_of_the_type_of_its_values(kind: pa.DataType, made: str | None) -> None:
    assert spark_type_in(kind) == made


def test_the_commits_of_a_table_are_told_in_deltas_words(lake: Lake) -> None:
    shown = lake.sql("DESCRIBE HISTORY t")
    assert shown.columns[:4] == ("version", "timestamp", "operation", "operationParameters")
    rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.fetchall()]
    assert [(row["version"], row["operation"]) for row in rows] == [
        (2, "WRITE"),
        (1, "WRITE"),
        (0, "CREATE TABLE"),
    ]
    assert json.loads(rows[0]["operationMetrics"])["num_added_rows"] == 1
    assert json.loads(rows[2]["operationParameters"]) == {"mode": "ErrorIfExists"}
    assert rows[0]["timestamp"].tzinfo is UTC
    assert lake.sql("DESC HISTORY a LIMIT 1").fetchall() == shown.fetchall()[:1]
    lake.sql("CREATE TABLE history (ts TIMESTAMP, v INT)")
    assert [row[0] for row in lake.sql("DESCRIBE history").fetchall()] == ["ts", "v"]


def test_the_properties_of_a_table_are_listed(lake: Lake) -> None:
    found = dict(lake.sql("SHOW TBLPROPERTIES main.t").fetchall())
    assert found["delta.enableChangeDataFeed"] == "true"
    assert found["delta.minReaderVersion"] == "1"
    one = lake.sql("SHOW TBLPROPERTIES t ('delta.minWriterVersion')").fetchall()
    assert one == [("delta.minWriterVersion", found["delta.minWriterVersion"])]
    assert "does not have property: x" in lake.sql("SHOW TBLPROPERTIES t ('x')").fetchall()[0][1]


@pytest.mark.parametrize(
    ("statement", "named", "hint"),
    [
        ("FLUSH", "FLUSH is not supported", "FLUSH STREAM"),
        ("FLUSH TABLE t", "FLUSH is not supported", "FLUSH STREAM"),
        ("KILL QUERY 5", "not by a number", "in quotes"),
        ("RECALCULATE STREAM s", "expected FROM or RESYNC", "of event time"),
        ("CREATE CQ c BEGIN SELECT 1 END", "not understood", "INTO root."),
        ("ALTER TABLE t ADD a.b INT", "a column within another one", "STRING of JSON"),
        ("ALTER TABLE t ADD COLUMN a.b INT", "a column within another one", "STRING of JSON"),
        ("DROP TABLE t PURGE", "DROP TABLE … PURGE", "leave it out"),
        ("DROP TABLE t CASCADE", "DROP TABLE … CASCADE", "leave it out"),
        ("REINDEX TABLE t", "REINDEX is not supported", "maintain"),
        ("CLUSTER t", "CLUSTER is not supported", "maintain"),
        ("CREATE TABLE c (ts TIMESTAMP) AS SELECT ts FROM t", "CREATE TABLE … AS", "without the columns"),
        ("CREATE TABLE c USING delta AS SELECT ts FROM t", "CREATE TABLE … USING", "leave it out"),
    ],
)
def test_what_is_written_elsewhere_is_refused_by_name(
    lake: Lake, statement: str, named: str, hint: str
) -> None:
    with pytest.raises(LakestreamError, match=named) as refused:
        lake.sql(statement)
    assert hint in refused.value.hint


def test_a_column_is_added_without_its_word(lake: Lake) -> None:
    lake.sql("CREATE TABLE c (ts TIMESTAMP, v INT)")
    assert lake.sql("ALTER TABLE c ADD w INT").message == "added w to main.c"
