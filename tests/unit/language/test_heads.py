"""Statements that can only be IoTDB's are read as such; where that cannot be told, the error says how to."""

from __future__ import annotations

import pytest

from lakestream.errors import StatementError
from lakestream.language import parse_script, script_parts
from lakestream.language.iotdb import statements
from lakestream.language.iotdb.heads import HEADS
from lakestream.language.iotdb.values import TreeStatement


@pytest.mark.parametrize(
    "text",
    [
        "CREATE DATABASE root.ln",
        "create database root.readings USING TABLE readings (device = name, time = ts)",
        "DELETE DATABASE root.ln",
        "CREATE TIMESERIES root.ln.d.s WITH DATATYPE=INT32",
        "CREATE ALIGNED TIMESERIES root.ln.d (a INT32, b DOUBLE)",
        "INSERT INTO root.ln.d(timestamp, s) VALUES (1, 2)",
        "INSERT INTO root.ln.1d(timestamp, s) VALUES (1, 2)",
        "SELECT count(s) FROM root.ln.d GROUP BY ([0, 10), 2ms)",
        "SELECT s FROM root.**",
        "SELECT s FROM root.*.d",
        "CREATE CQ c BEGIN SELECT avg(s) INTO root.ln.e(mean) FROM root.ln.d GROUP BY (1h) END",
        "SHOW CQS",
        "SHOW TRIGGERS",
        "DROP TRIGGER t",
    ],
)
def test_a_statement_that_can_only_be_iotdbs_is_read_so(text: str) -> None:
    (read,) = parse_script(text)
    assert isinstance(read, TreeStatement)
    assert [read] == parse_script(text, dialect="iotdb")


def test_statements_of_two_dialects_stand_in_one_text() -> None:
    series = "CREATE TIMESERIES root.ln.d.s WITH DATATYPE="
    text = f"CREATE TABLE t (ts TIMESTAMP, v INT);\n{series}INT32;\nSHOW TABLES"
    assert [isinstance(read, TreeStatement) for read in parse_script(text)] == [False, True, False]
    assert [part.line for part in script_parts(text)] == [1, 2, 3]
    with pytest.raises(StatementError) as refused:
        parse_script(f"SHOW TABLES;\n\n{series}INT33")
    assert refused.value.place is not None
    assert (refused.value.place.line, refused.value.place.column) == (3, 45)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE DATABASE root",
        "SELECT v FROM root.ln",
        "INSERT INTO root.ln VALUES (now, 1)",
        "DELETE FROM root.ln WHERE v = 1",
        "SELECT root.v FROM t AS root",
        "SHOW DATABASES",
    ],
)
def test_a_database_may_be_called_root(text: str) -> None:
    (read,) = parse_script(text)
    assert not isinstance(read, TreeStatement)


@pytest.mark.parametrize("text", ["COUNT NODES root.ln.d", "SELECT LAST s FROM t, root.ln.d"])
def test_where_it_cannot_be_told_the_dialect_is_named(text: str) -> None:
    with pytest.raises(StatementError) as refused:
        parse_script(text)
    assert "--dialect iotdb" in refused.value.hint


@pytest.mark.parametrize("head", HEADS, ids=" ".join)
def test_every_head_is_one_of_iotdb(head: tuple[str, ...]) -> None:
    assert head in statements._STATEMENTS or head in statements._UNBUILT
