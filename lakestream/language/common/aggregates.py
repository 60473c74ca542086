"""Which functions of a query are aggregates."""

from __future__ import annotations

from sqlglot import exp

AGGREGATES = frozenset(
    {
        "any_value", "approx_percentile", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or",
        "collect_set", "corr", "covar_pop", "covar_samp", "every", "histogram_numeric", "kurtosis", "listagg",
        "max_by", "median", "min_by", "percentile", "percentile_approx", "percentile_cont", "percentile_disc",
        "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx",
        "regr_sxy", "regr_syy", "skewness", "some", "std", "string_agg", "try_avg", "try_sum",
    }
)  # fmt: skip
"""Spark's aggregates that sqlglot has no class of its own for."""

OWN_AGGREGATES = frozenset(
    {"apercentile", "elapsed", "first_row", "group_concat", "hyperloglog", "irate", "last_row"}
    | {"percentile", "spread", "std", "stddev", "stddev_pop", "stddev_samp", "twa", "var_pop", "var_samp"}
    | {"leastsquares", "variance"}
)
"""Aggregates of TDengine that Spark has not, or has with another meaning."""


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether it is a call of an aggregate function."""
    if node.meta.get("aggregate"):
        return True
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in AGGREGATES | OWN_AGGREGATES
    return isinstance(node, exp.AggFunc)
