"""Statements of very many parts beside or in one another: they are done, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp, parse_one

from lakestream import Lake
from lakestream.errors import LakestreamError
from lakestream.language.common.templates import put_in_place
from lakestream.language.expressions.parsing import conjuncts
from lakestream.language.names import FreeNames
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDE: dict[str, Callable[[int], str]] = {
    "and": lambda n: "SELECT * FROM t WHERE " + " AND ".join(["v = 1"] * n),
    "or": lambda n: "SELECT * FROM t WHERE " + " OR ".join(f"v = {i}" for i in range(n)),
    "both": lambda n: "SELECT * FROM t WHERE " + " OR ".join(["v = 1 AND v = 2"] * n),
    "not": lambda n: "SELECT " + "NOT " * n + "true",
    "sum": lambda n: "SELECT " + " + ".join(["v"] * n) + " FROM t",
    "minus": lambda n: "SELECT " + "- " * n + "v FROM t",
    "brackets": lambda n: "SELECT " + "(" * n + "v" + ")" * n + " FROM t",
    "case": lambda n: "SELECT " + "CASE WHEN v = 1 THEN " * n + "1" + " END" * n + " FROM t",
    "calls": lambda n: "SELECT " + "abs(" * n + "v" + ")" * n + " FROM t",
    "casts": lambda n: "SELECT " + "CAST(" * n + "v" + " AS INT)" * n + " FROM t",
    "queries": lambda n: "SELECT * FROM (" * n + "SELECT v FROM t" + ")" * n,
    "unions": lambda n: " UNION ALL ".join(["SELECT v FROM t"] * n),
    "columns": lambda n: "SELECT " + ", ".join(["v + 1"] * n) + " FROM t",
    "list": lambda n: f"SELECT v FROM t WHERE v IN ({', '.join(map(str, range(n)))})",
    "delete": lambda n: "DELETE FROM t WHERE " + " AND ".join(["v = 1"] * n),
    "update": lambda n: "UPDATE t SET v = " + " + ".join(["v"] * n),
    "stream": lambda n: (
        f"CREATE STREAM s{n} INTERVAL(1s) SLIDING(1s) FROM t STREAM_OPTIONS(FILL_HISTORY) INTO o{n} AS "
        f"SELECT _twstart, sum(CASE WHEN {' AND '.join(['v >= 0'] * n)} THEN 1 END) AS n FROM %%trows"
    ),
    "filtered": lambda n: (
        f"CREATE STREAM f{n} INTERVAL(1s) SLIDING(1s) FROM t STREAM_OPTIONS(FILL_HISTORY | PRE_FILTER("
        f"{' AND '.join(['v >= 0'] * n)})) INTO p{n} AS SELECT _twstart, count(*) AS n FROM %%trows"
    ),
}
SIZES = (250, 900)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that has no Spark: what asks for it is refused by name."""
    folder = tmp_path_factory.mktemp("wide")
    with Lake(folder / "lake", settings=Settings(jars=Path(folder))) as lake:
        lake.sql(
            "CREATE TABLE t (ts TIMESTAMP, v INT); INSERT INTO t VALUES ('2025-01-01', 1), ('2025-01-02', 2)"
        )
        yield lake


@pytest.mark.parametrize("kind", WIDE)
def test_a_statement_of_many_parts_is_done_or_refused_by_name(lake: Lake, kind: str) -> None:
    for size in (3, *SIZES):
        try:
            lake.sql(WIDE[kind](size))
        except LakestreamError as error:
            assert error.code in ("STATEMENT_TOO_DEEP", "JARS_MISSING"), error  # noqa: PT017
    assert lake.run().failed == []


def test_a_node_is_put_beside_others_as_sqlglot_does_it() -> None:
    for at in range(4):
        tree, other = (parse_one("SELECT a, b, c FROM t WHERE a IN (1, 2, 3, 4)") for _ in range(2))
        assert hash(tree) == hash(other)
        one, two = (next(iter(query.find_all(exp.In))).expressions[at] for query in (tree, other))
        put_in_place(one, exp.column("x"))
        two.replace(exp.column("x"))
        assert (tree, hash(tree), tree.sql()) == (other, hash(other), other.sql())
        assert [node.index for node in tree.walk()] == [node.index for node in other.walk()]
        assert (one.parent, one.arg_key, one.index) == (None, None, None)


def test_what_has_nothing_beside_it_is_replaced_too() -> None:
    tree = parse_one("SELECT a FROM t WHERE a = 1")
    put_in_place(tree.args["where"].this, exp.true())
    assert tree.sql() == "SELECT a FROM t WHERE TRUE"


def test_conjuncts_keep_their_order() -> None:
    parts = conjuncts(parse_one("a = 1 AND (b = 2 AND c = 3) AND (d = 4 OR e = 5 AND f = 6)"))
    assert [part.sql() for part in parts] == ["a = 1", "b = 2", "c = 3", "d = 4 OR e = 5 AND f = 6"]


def test_names_are_free_beside_those_before_them() -> None:
    free = FreeNames(["A", "b_2"])
    assert [free.take(name) for name in ("a", "a", "b", "b", "b", "B", "c")] == [
        "a_2", "a_3", "b", "b_3", "b_4", "B_5", "c",
    ]  # fmt: skip
