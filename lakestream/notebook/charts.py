"""A small chart of rows with a time: a line for each number, by group."""

from __future__ import annotations

import re

import altair as alt
import pyarrow as pa
import pyarrow.types as kinds

from lakestream.errors import StatementError

_MOST_NUMBERS, _MOST_ROWS = 4, 5_000
_WIDTH, _HEIGHT = 480, 120


def chart(rows: pa.Table) -> alt.Chart | alt.FacetChart:
    """Return a chart of up to four numbers over the first time, coloured by the first text.

    It draws the first 5,000 rows. Raises StatementError NOTHING_TO_CHART for rows without a time or a number.
    """
    named = {field.name: field.type for field in rows.schema}
    times = [name for name, kind in named.items() if kinds.is_timestamp(kind) or kinds.is_date(kind)]
    numbers = [name for name, kind in named.items() if _is_number(kind)][:_MOST_NUMBERS]
    groups = [name for name, kind in named.items() if _is_text(kind)]
    if not times or not numbers:
        raise StatementError(
            "NOTHING_TO_CHART", "a chart needs a time and a number among the columns", hint=", ".join(named)
        )
    lines = alt.Chart(_plain(rows.select([times[0], *numbers, *groups[:1]]).slice(0, _MOST_ROWS)))
    drawn = lines.transform_fold(numbers, as_=["number", "value"]).mark_line(point=True)
    colour = groups[0] if groups else "number"
    charted: alt.Chart = drawn.encode(
        x=alt.X(field=_field(times[0]), type="temporal", title=times[0]),
        y=alt.Y(field="value", type="quantitative", title=None),
        color=alt.Color(field=_field(colour), type="nominal", title=colour),
    ).properties(width=_WIDTH, height=_HEIGHT)
    if len(numbers) == 1:
        return charted
    rows_of = charted.facet(row=alt.Row(field="number", type="nominal", title=None))
    faceted: alt.FacetChart = rows_of.resolve_scale(y="independent")
    return faceted


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _plain(rows: pa.Table) -> pa.Table:
    """Return rows in the types that a chart draws: decimals as floats."""

    def drawn(kind: pa.DataType) -> pa.DataType:
        if kinds.is_decimal(kind):
            return pa.float64()
        return pa.string() if _is_text(kind) else kind

    return rows.cast(pa.schema([(field.name, drawn(field.type)) for field in rows.schema]))


def _field(name: str) -> str:
    """Return a column's name as a chart refers to it: a dot or a bracket would lead into a value."""
    return re.sub(r"([.\[\]\\])", r"\\\1", name)
