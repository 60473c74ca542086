"""What of Spark's SQL is on the list, and what DuckDB has for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable

    Rewrites = dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]]
    """What a node becomes, by its type; its parts have been rewritten."""

_STRUCTURE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Alias,
        exp.Aliases,
        exp.Column,
        exp.CTE,
        exp.Distinct,
        exp.Except,
        exp.Exists,
        exp.Filter,
        exp.From,
        exp.Group,
        exp.Having,
        exp.Identifier,
        exp.Intersect,
        exp.Join,
        exp.Lateral,
        exp.Limit,
        exp.Offset,
        exp.Literal,
        exp.Order,
        exp.Ordered,
        exp.Paren,
        exp.PropertyEQ,
        exp.Select,
        exp.Star,
        exp.Subquery,
        exp.Table,
        exp.TableAlias,
        exp.Tuple,
        exp.Union,
        exp.Where,
        exp.Window,
        exp.WindowSpec,
        exp.With,
        exp.Lambda,
        exp.Boolean,
        exp.Null,
        exp.DataType,
        exp.DataTypeParam,
        exp.ColumnDef,
        exp.Dot,
        exp.Qualify,
        exp.IgnoreNulls,
        exp.Values,
    }
)
_OPERATORS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Add,
        exp.And,
        exp.Between,
        exp.Case,
        exp.Coalesce,
        exp.Div,
        exp.EQ,
        exp.GT,
        exp.GTE,
        exp.If,
        exp.In,
        exp.IntDiv,
        exp.Is,
        exp.LT,
        exp.LTE,
        exp.Mod,
        exp.Mul,
        exp.NEQ,
        exp.Neg,
        exp.Not,
        exp.NullSafeEQ,
        exp.NullSafeNEQ,
        exp.Nullif,
        exp.Or,
        exp.Sub,
        exp.TryCast,
        exp.Cast,
        exp.Abs,
        exp.Greatest,
        exp.Least,
    }
)
_AGGREGATES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.AnyValue,
        exp.ArgMax,
        exp.ArgMin,
        exp.Avg,
        exp.Count,
        exp.CountIf,
        exp.LogicalAnd,
        exp.LogicalOr,
        exp.Max,
        exp.Min,
        exp.Sum,
        exp.ArrayUniqueAgg,
        exp.ArrayAgg,
    }
)
_WINDOWED: frozenset[type[exp.Expr]] = frozenset(
    {exp.Lag, exp.Lead, exp.RowNumber, exp.Rank, exp.DenseRank, exp.LastValue, exp.FirstValue}
)
_NESTED: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Array,
        exp.ArrayFilter,
        exp.ArrayMax,
        exp.ArrayMin,
        exp.ArraySort,
        exp.ArraySize,
        exp.Bracket,
        exp.Explode,
        exp.GenerateSeries,
        exp.Flatten,
        exp.Inline,
        exp.JSONFormat,
        exp.Reduce,
        exp.Struct,
        exp.VarMap,
        exp.Transform,
        exp.ArrayConcat,
        exp.Concat,
        exp.DPipe,
    }
)
TEXTS: frozenset[type[exp.Expr]] = frozenset(
    {exp.Contains, exp.EndsWith, exp.Left, exp.Length, exp.Like, exp.MD5, exp.StartsWith, exp.Substring}
)
_LETTERS: frozenset[type[exp.Expr]] = frozenset({exp.Upper, exp.Lower, exp.Trim, exp.Replace})
_NUMBERS: frozenset[type[exp.Expr]] = frozenset({exp.Ceil, exp.Floor, exp.Round, exp.Sqrt})
PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
FIELDS = {name.upper(): part for part, name in PARTS.items() if part is not exp.Second}
"""Fields that Spark extracts as whole numbers: seconds have a fraction there."""
FORM = re.compile(r"(%Y|%[mdHMS]strict|[-/:., ])+")
"""A format of fields that both write alike, as sqlglot reads it."""
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_TIMES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.AddMonths,
        exp.AtTimeZone,
        exp.Extract,
        exp.FromTimeZone,
        exp.TimestampTrunc,
        exp.TimeStrToTime,
        exp.TimeToStr,
        exp.TsOrDsToDate,
        exp.UnixDate,
        exp.UnixMicros,
        exp.UnixMillis,
        exp.Var,
        *PARTS,
    }
)
KNOWN = _STRUCTURE | _OPERATORS | _AGGREGATES | _WINDOWED | _NESTED | TEXTS | _LETTERS | _NUMBERS | _TIMES
MACROS = {
    "timestamp_micros": "make_timestamptz",
    "array_repeat": "ls_repeat",
    "get": "ls_get",
    "octet_length": "ls_bytes",
}
"""Functions that sqlglot does not know, and what DuckDB has for them."""
TAKEN: dict[type[exp.Expr], frozenset[str]] = {
    exp.ArraySort: frozenset({"asc", "nulls_first"}),
    exp.Case: frozenset({"default"}),
    **dict.fromkeys((exp.Cast, exp.TryCast), frozenset({"to"})),
    exp.GenerateSeries: frozenset({"start", "end", "step"}),
    exp.If: frozenset({"true", "false"}),
    exp.JSONFormat: frozenset({"options"}),
    **dict.fromkeys((exp.Lag, exp.Lead), frozenset({"offset", "default"})),
    exp.Reduce: frozenset({"initial", "merge", "finish"}),
    exp.Replace: frozenset({"replacement"}),
    exp.Round: frozenset({"decimals"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.TimeToStr: frozenset({"format"}),
    exp.TimestampTrunc: frozenset({"unit", "zone"}),
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), frozenset({"zone"})),
    exp.VarMap: frozenset({"keys", "values"}),
}
"""Arguments of functions beside their first ones."""


def macro(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return a call of a macro, or of a function of DuckDB's."""
    return exp.Anonymous(this=name, expressions=[*arguments])
