"""Which rows UPDATE and DELETE change: those for which a condition holds to Python's exact numbers."""

from __future__ import annotations

import math
import operator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream import Lake
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "t": ("TINYINT", [-128, -1, 0, 5, 127, None]),
    "i": ("INT", [-(2**31), -3, 0, 5, 6, None]),
    "b": ("BIGINT", [-(2**63), 2**53, 2**53 + 1, 5, 2**63 - 1, None]),
    "c": ("DECIMAL(10,2)", [Decimal(text) for text in ("-1.50", "0.10", "5.00", "5.70", "5.71")] + [None]),
    "d": ("DOUBLE", [-1.5, 0.1, 5.0, 5.7, 1e300, None]),
    "f": ("FLOAT", [-1.5, 0.1, 5.0, 5.7, 2.0, None]),
}
NUMBERS = (
    *("5", "5.0", "5e0", "5.7", "5.705", "0.1", "0.10", "-1.5", "-3", "-0.5", "1e1", "127.5", "128", "-129"),
    *("2147483648", "-2147483649", "9007199254740992.5", "9223372036854775808", "99999999.995", "1e300"),
)
SAYS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Return a lake with a table of numbers of each kind, and one of other kinds."""
    root: Path = tmp_path_factory.mktemp("changed") / "lake"
    with Lake(root) as lake:
        kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
        lake.sql(f"CREATE TABLE numbers (ts TIMESTAMP, n INT, hit INT, {kinds})")
        lake.sql("CREATE TABLE others (ts TIMESTAMP, hit INT, s STRING, o BOOLEAN, day DATE)")
        yield lake


def exact(name: str, value: Any) -> Any:
    """Return what a column holds, as Spark compares it with a constant: a FLOAT as the DOUBLE that it is."""
    if name == "f":
        value = pa.scalar(value, pa.float32()).as_py()
    return Decimal(value) if isinstance(value, int | Decimal) else value


def constant(name: str, text: str) -> Any:
    """Return a constant as Spark compares it with a column."""
    return float(text) if name in "df" else Decimal(text)


def changed(lake: Lake, condition: str) -> set[int]:
    """Return the rows that an UPDATE changes."""
    lake.sql("UPDATE numbers SET hit = 0")
    lake.sql(f"UPDATE numbers SET hit = 1 WHERE {condition}")
    return {n for n, hit in lake.sql("SELECT n, hit FROM numbers").fetchall() if hit}


def filled(lake: Lake) -> None:
    """Put the rows back."""
    rows = [
        {"ts": START + timedelta(seconds=n), "n": n, "hit": 0}
        | {name: values[n] for name, (_, values) in COLUMNS.items()}
        for n in range(6)
    ]
    lake.insert("numbers", rows)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_number_beside_a_column_loses_nothing(lake: Lake, name: str) -> None:
    """Whatever side it stands on, in IN and BETWEEN, and as a text; a DELETE takes the rows of an UPDATE."""
    filled(lake)
    drawn = Random(name)
    values = {n: exact(name, value) for n, value in enumerate(COLUMNS[name][1]) if value is not None}
    for text, (says, holds) in drawn.sample(list(product(NUMBERS, SAYS.items())), 12):
        if name == "c" and len(text) > 11:
            continue
        right = {n for n, value in values.items() if holds(value, constant(name, text))}
        flipped = says.translate(str.maketrans("<>", "><")) if says != "<>" else says
        for condition in (
            f"{name} {says} {text}",
            f"({text}) {flipped} {name}",
        ):
            assert changed(lake, condition) == right, condition
        assert changed(lake, f"NOT ({name} {says} {text})") == values.keys() - right, (name, says, text)
    for low, high in [drawn.sample(NUMBERS[:16], 2) for _ in range(3)]:
        least, most = constant(name, low), constant(name, high)
        between = {n for n, value in values.items() if least <= value <= most}
        assert changed(lake, f"{name} BETWEEN {low} AND {high}") == between, (low, high)
        among = {n for n, value in values.items() if value in (least, most)}
        assert changed(lake, f"{name} IN ({low}, {high})") == among, (low, high)
    lake.sql(f"DELETE FROM numbers WHERE {name} > 5.5")
    left = {n for (n,) in lake.sql("SELECT n FROM numbers").fetchall()}
    assert left == set(range(6)) - {n for n, value in values.items() if value > 5.5}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("i / 2 = 2.5", lambda row: row["i"] / 2 == 2.5),
        ("i / 2 = 2", lambda row: row["i"] / 2 == 2),
        ("i / t > 0.5", lambda row: row["t"] != 0 and row["i"] / row["t"] > 0.5),
        ("i / 0 > 1", lambda _: False),
        ("i % 0 = 1", lambda _: False),
        ("i % 2 = 1", lambda row: row["i"] == 5),
        ("i % 100 + t > 10.5", lambda row: math.fmod(row["i"], 100) + row["t"] > 10.5),
        ("i + 0 = 5.7", lambda _: False),
        ("-i = 3", lambda row: row["i"] == -3),
        ("c = d", lambda row: float(row["c"]) == row["d"]),
        ("i < d", lambda row: row["i"] < row["d"]),
        ("i = b", lambda row: row["i"] == row["b"]),
    ],
)
def test_what_is_computed_is_computed_as_in_a_query(
    lake: Lake, condition: str, holds: Callable[[dict[str, Any]], bool]
) -> None:
    """Integers are divided to fractions, and by nothing to NULL."""
    filled(lake)
    rows = [{name: values[n] for name, (_, values) in COLUMNS.items()} for n in range(5)]
    assert changed(lake, condition) == {n for n, row in enumerate(rows) if holds(row)}


def test_what_is_set_is_computed_as_in_a_query(lake: Lake) -> None:
    filled(lake)
    lake.sql("UPDATE numbers SET d = i / 2, hit = i % 0 WHERE i = 5")
    assert lake.sql("SELECT d, hit FROM numbers WHERE i = 5").fetchall() == [(2.5, None)]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("o = 1", {"b"}),
        ("o = 'TRUE'", {"b"}),
        ("0 = o", {"a"}),
        ("day > '2026-01-01'", {"a"}),
        ("'2026-01-02' <> day", {"b"}),
        ("s = 'a'", {"b"}),
    ],
)
def test_other_kinds_beside_constants(lake: Lake, condition: str, left: set[str]) -> None:
    rows = [("a", True, date(2026, 1, 1)), ("b", False, date(2026, 1, 2))]
    lake.insert(
        "others",
        [
            {"ts": START + timedelta(seconds=n), "s": s, "o": o, "day": day}
            for n, (s, o, day) in enumerate(rows)
        ],
    )
    lake.sql(f"DELETE FROM others WHERE {condition}")
    assert {s for (s,) in lake.sql("SELECT s FROM others").fetchall()} == left


@pytest.mark.parametrize("does", ["DELETE FROM {0} WHERE", "UPDATE {0} SET hit = 1 WHERE"])
@pytest.mark.parametrize(
    ("table", "condition", "code"),
    [
        ("numbers", "i > 'abc'", "BAD_VALUE"),
        ("numbers", "i = '5.7'", "BAD_VALUE"),
        ("numbers", "'' < d", "BAD_VALUE"),
        ("numbers", "i IN (1, 'x')", "BAD_VALUE"),
        ("others", "s > 5", "BAD_VALUE"),
        ("others", "5 = s", "BAD_VALUE"),
        ("others", "o = 2", "BAD_VALUE"),
        ("others", "o = 'yes'", "BAD_VALUE"),
        ("others", "day > 'abc'", "BAD_VALUE"),
        ("others", "day = 5", "BAD_VALUE"),
    ],
)
def test_constants_of_another_kind_are_refused(
    lake: Lake, does: str, table: str, condition: str, code: str
) -> None:
    with pytest.raises(StatementError) as refused:
        lake.sql(f"{does.format(table)} {condition}")
    assert (refused.value.code, refused.value.place is not None) == (code, True)
