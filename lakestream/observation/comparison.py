"""Rows held against rows as multisets: of equal rows each one counts, and floating-point ones may be near."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakestream.engine.base.plain import shown
from lakestream.language.quoting import quoted
from lakestream.storage.rows.views import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

TOLERANCE = 1e-9
SHOWN = 100
_FLOATING = ("double", "float")
_EXPECTED, _FOUND = "ls_expected", "ls_found"
_NUMBER = "_ls_number"
_COLUMN = "c"

Kind = Literal["changed", "missing", "extra", "doubled"]
"""How a row differs: it is another, is not there, is there for nothing, or is there beside one of its key."""


@dataclass(frozen=True)
class Difference:
    """A row that is not as the batch evaluation has it; None on the side that has no such row."""

    key: tuple[Any, ...]
    expected: tuple[Any, ...] | None
    found: tuple[Any, ...] | None

    def __str__(self) -> str:
        """Say what should be there and what is."""
        return f"expected {_shown(self.expected)}, found {_shown(self.found)}"


@dataclass(frozen=True)
class Compared:
    """How many rows are equal, expected, found, differ or were left out; the first 100 that differ."""

    equal: int
    expected: int
    found: int
    differing: int
    left_out: int
    listed: tuple[Difference, ...]


@dataclass(frozen=True)
class Comparison:
    """Compares relations with the columns ``types`` (name and Spark type) by the columns ``key``.

    Rows of one key are numbered on both sides and compared number by number: a row that is there twice
    differs from one that should be there once. What is floating-point tells no keys apart, and may differ
    by a relative 1e-9.
    """

    spark: SparkSession
    types: dict[str, str]
    key: Sequence[str]

    def run(self, expected: DataFrame, found: DataFrame, left_out: frozenset[Kind] = frozenset()) -> Compared:
        """Count the rows that are equal and those that are not; kinds of differences may be ``left_out``."""
        view_of(self._numbered(expected, "a"), _EXPECTED)
        view_of(self._numbered(found, "b"), _FOUND)
        on = " AND ".join(f"a_{name} <=> b_{name}" for name in [*self._keys, _NUMBER])
        same = " AND ".join(["a_there", "b_there", *map(self._equal, self._rest)])
        kind = (
            f"CASE WHEN {same} THEN 'equal' WHEN b_there IS NULL THEN 'missing' "
            f"WHEN a_there IS NULL THEN IF(b_{_NUMBER} = 1, 'extra', 'doubled') ELSE 'changed' END"
        )
        joined = self.spark.sql(
            f"SELECT *, {kind} AS kind FROM {_EXPECTED} FULL OUTER JOIN {_FOUND} ON {on}"
        ).persist()
        try:
            return self._counted(joined, left_out)
        finally:
            joined.unpersist()

    def _counted(self, joined: DataFrame, left_out: frozenset[Kind]) -> Compared:
        from pyspark.sql import functions as F  # noqa: N812

        counts: Counter[str] = Counter(dict(joined.groupBy("kind").count().collect()))
        order = [F.expr(f"coalesce(a_{name}, b_{name})") for name in [*self._keys, _NUMBER]]
        shown = joined.where(~F.col("kind").isin("equal", *left_out))
        listed = _rows(shown.orderBy(*order).limit(SHOWN))
        without = sum(counts[kind] for kind in left_out)
        both = counts["equal"] + counts["changed"]
        return Compared(
            counts["equal"],
            both + counts["missing"],
            both + counts["extra"] + counts["doubled"],
            counts.total() - counts["equal"] - without,
            without,
            tuple(map(self._difference, listed)),
        )

    @property
    def _names(self) -> dict[str, str]:
        """The columns by the names they have in the comparison."""
        return {f"{_COLUMN}{number}": name for number, name in enumerate(self.types)}

    @property
    def _keys(self) -> list[str]:
        return [own for own, name in self._names.items() if name in self.key and not self._floats(name)]

    @property
    def _rest(self) -> list[str]:
        return [own for own in self._names if own not in self._keys]

    def _floats(self, name: str) -> bool:
        return self.types[name] in _FLOATING

    def _ordered(self, name: str) -> str:
        """Return SQL of a column's value, or of its text where Spark puts none in order: of maps."""
        if "map<" not in self.types[name]:
            return quoted(name)
        return f"to_json({quoted(name)}, map('ignoreNullFields', 'false'))"

    def _numbered(self, rows: DataFrame, side: str) -> DataFrame:
        """Return rows with their number among those of their key; near values are in the same order."""
        listed = [f"{self._ordered(name)} AS {own}" for own, name in self._names.items()]
        floating = [own for own in self._rest if self._floats(self._names[own])]
        exact = [own for own in self._rest if own not in floating]
        order = [*exact, *(f"CAST({own} AS FLOAT)" for own in floating), *floating]
        partition = f"PARTITION BY {', '.join(self._keys)} " if self._keys else ""
        over = f"{partition}ORDER BY {', '.join(order or ['1'])}"
        numbered = rows.selectExpr(*listed).selectExpr("*", f"row_number() OVER ({over}) AS {_NUMBER}")
        names = [*self._names, _NUMBER]
        return numbered.selectExpr(*(f"{name} AS {side}_{name}" for name in names), f"true AS {side}_there")

    def _equal(self, own: str) -> str:
        a, b = f"a_{own}", f"b_{own}"
        if not self._floats(self._names[own]):
            return f"{a} <=> {b}"
        apart = f"abs(CAST({a} AS DOUBLE) - {b})"
        near = f"{apart} <= {TOLERANCE} * greatest(abs({a}), abs({b}))"
        # Infinity is near nothing, and no number is greater than NaN.
        return f"({a} <=> {b} OR ({apart} < double('Infinity') AND {near}))"

    def _difference(self, row: Any) -> Difference:  # noqa: ANN401 - a Row of Spark
        expected, found = (
            tuple(row[f"{side}_{own}"] for own in self._names) if row[f"{side}_there"] else None
            for side in "ab"
        )
        side = "a" if row["a_there"] else "b"
        return Difference(tuple(row[f"{side}_{own}"] for own in self._keys), expected, found)


def _rows(listed: DataFrame) -> list[Any]:
    """Return rows, all as texts where one has a time that Python's datetime does not reach."""
    try:
        return listed.collect()
    except (OverflowError, ValueError):
        texts = (
            name if name.endswith("_there") else f"CAST({name} AS STRING) AS {name}"
            for name in listed.columns
        )
        return listed.selectExpr(*texts).collect()


def _shown(row: tuple[Any, ...] | None) -> str:
    return "no row" if row is None else f"({', '.join(map(shown, row))})"
