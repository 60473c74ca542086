"""Expectations of a stream, compiled: conditions that rows are to meet, as SQL that is true or false."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.engine.base.plain import shown
from lakestream.engine.streams.source import row_expression
from lakestream.errors import StatementError, did_you_mean
from lakestream.language.common.functions import Meaning
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression, place_in
from lakestream.language.model import FAIL, QUARANTINE
from lakestream.language.quoting import quoted, quoted_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.streams.source import Source
    from lakestream.language.model import Expectation, Fragment, StreamDefinition
    from lakestream.output.columns import OutputShape


@dataclass(frozen=True)
class Check:
    """An expectation over rows; ``condition`` is SQL, which may be NULL."""

    expectation: Expectation
    condition: str

    @property
    def holds(self) -> str:
        """SQL that is true for a row that meets it, else false."""
        return f"coalesce(({self.condition}), false)"

    @property
    def name(self) -> str:
        """What counts go by."""
        return self.expectation.name

    @property
    def fails(self) -> bool:
        """Whether a row that does not meet it stops the stream."""
        return self.expectation.action == FAIL

    @property
    def quarantines(self) -> bool:
        """Whether rows that do not meet it go into the quarantine."""
        return self.expectation.action == QUARANTINE


def source_checks(definition: StreamDefinition, source: Source, zone: str) -> tuple[Check, ...]:
    """Return what rows of the source are to meet. Raises StatementError COLUMN_NOT_FOUND."""
    return tuple(
        Check(one, row_expression(one.condition, source, zone))
        for one in definition.expected(of_results=False)
    )


def result_checks(definition: StreamDefinition, shape: OutputShape, zone: str) -> tuple[Check, ...]:
    """Return what rows of the output are to meet. Raises StatementError COLUMN_NOT_FOUND."""
    return tuple(
        Check(one, _over_results(one.condition, shape, zone)) for one in definition.expected(of_results=True)
    )


def _over_results(fragment: Fragment, shape: OutputShape, zone: str) -> str:
    known = {column.name.lower(): column.name for column in shape.columns}

    def resolve(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        first, *fields = [part.name for part in node.parts]
        if first.lower() not in known:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"the output has no column {first}",
                hint=did_you_mean(first, known.values()),
                place=place_in(fragment, node),
            )
        found: exp.Expr = exp.column(known[first.lower()], quoted=True)
        for name in fields:
            found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
        return found

    times = {column.name.lower() for column in shape.columns if column.type == "timestamp"}
    tree = in_spark(parse_expression(fragment), Meaning(zone), fragment, times)
    return str(tree.transform(resolve).sql("spark"))


def stays_sql(checks: Sequence[Check]) -> str:
    """Return SQL that holds for the rows that stay where they are; empty where all do."""
    return " AND ".join(check.holds for check in checks if not check.expectation.keeps_rows)


def quarantined_sql(checks: Sequence[Check]) -> str:
    """Return SQL that holds for the rows that go into the quarantine; empty where none do."""
    met = " AND ".join(check.holds for check in checks if check.quarantines)
    return f"NOT ({met})" if met else ""


def reason_sql(checks: Sequence[Check]) -> str:
    """Return SQL of the names of the expectations for which a row goes into the quarantine."""
    named = [check for check in checks if check.quarantines]
    if len(named) == 1:
        return quoted_text(named[0].name)
    parts = ", ".join(
        f"CASE WHEN {check.holds} THEN '' ELSE {quoted_text(f', {check.name}')} END" for check in named
    )
    return f"substring(concat({parts}), 3)"


def described(check: Check, columns: Sequence[str], row: Sequence[object]) -> str:
    """Say which row does not meet an expectation, by its values."""
    values = ", ".join(f"{name} = {_shown(value)}" for name, value in zip(columns, row, strict=True))
    return f"{check.expectation}: there is a row that does not meet it ({values})"


_MOST_SHOWN = 60


def _shown(value: object) -> str:
    text = shown(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def listed_sql(columns: Sequence[str]) -> str:
    """Return columns as a select list."""
    return ", ".join(map(quoted, columns))
