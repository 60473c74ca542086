"""Which columns a stream is taken to use: those it names, all where it names none."""

from __future__ import annotations

import pytest

from lakestream.engine.base.names import names_used
from lakestream.language import parse_statement
from lakestream.language.model import CreateStream


@pytest.mark.parametrize(
    ("clauses", "query", "named"),
    [
        ("", "SELECT _twstart AS ws, count(*) AS n, sum(V) AS total FROM %%trows", {"v"}),
        ("PARTITION BY a + b AS c", "SELECT _twstart AS ws FROM %%trows", {"a", "b"}),
        ("STREAM_OPTIONS(PRE_FILTER(d > 1))", "SELECT _twstart AS ws FROM %%trows", {"d"}),
        ("", "SELECT _twstart AS ws, m.x FROM meters m JOIN b USING (k) WHERE `Q r` > 1", {"x", "k", "q r"}),
        ("", "SELECT _wstart AS ws, last(v) AS l FROM %%trows PARTITION BY dev INTERVAL(1s)", {"v", "dev"}),
        ("", "SELECT _twstart AS ws, (SELECT max(y) FROM other) AS top FROM %%trows", {"y"}),
    ],
)
def test_names_of_all_clauses_count(clauses: str, query: str, named: set[str]) -> None:
    found = used(clauses, query)
    assert found is not None
    assert named <= found
    assert "w" not in found
    assert "ws" not in found


@pytest.mark.parametrize(
    "query",
    [
        "SELECT _twstart AS ws, n FROM (SELECT * FROM %%trows) x",
        "SELECT _twstart AS ws, m.* FROM meters m",
        "SELECT _twstart AS ws, m.x FROM meters m NATURAL JOIN b",
    ],
)
def test_a_star_names_every_column(query: str) -> None:
    assert used("", query) is None


def used(clauses: str, query: str) -> frozenset[str] | None:
    statement = parse_statement(
        f"CREATE STREAM s INTERVAL(10s) SLIDING(5s) FROM meters {clauses} INTO o AS {query}"
    )
    assert isinstance(statement, CreateStream)
    return names_used(statement.definition)
