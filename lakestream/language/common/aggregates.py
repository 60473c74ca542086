"""Which functions of a query are aggregates."""

from __future__ import annotations

from sqlglot import exp

AGGREGATES = frozenset(
    {
        "any", "any_value", "approx_percentile", "approx_top_k", "approx_top_k_accumulate",
        "approx_top_k_combine", "bit_and", "bit_or", "bit_xor", "bitmap_and_agg", "bitmap_construct_agg",
        "bitmap_or_agg", "bool_and", "bool_or", "collect_set", "corr", "count_min_sketch", "covar_pop",
        "covar_samp", "every", "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kll_merge_agg_bigint",
        "kll_merge_agg_double", "kll_merge_agg_float", "kll_sketch_agg_bigint", "kll_sketch_agg_double",
        "kll_sketch_agg_float", "kurtosis", "listagg", "max_by", "mean", "measure", "median", "min_by",
        "percentile", "percentile_approx", "percentile_cont", "percentile_disc",
        "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx",
        "regr_sxy", "regr_syy", "schema_of_variant_agg", "skewness", "some", "std", "string_agg",
        "theta_intersection_agg", "theta_sketch_agg", "theta_union_agg", "try_avg", "try_sum",
        "tuple_intersection_agg_double", "tuple_intersection_agg_integer", "tuple_sketch_agg_double",
        "tuple_sketch_agg_integer", "tuple_union_agg_double", "tuple_union_agg_integer", "vector_avg",
        "vector_sum",
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
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Any) and not _compares(node))


def _compares(node: exp.Any) -> bool:
    """Return whether it is no aggregate but what something is held against: ``LIKE ANY (…)``."""
    return isinstance(node.parent, exp.Binary) and node.arg_key == "expression"


def number_all_groups(select: exp.Select) -> None:
    """Write GROUP BY ALL as the places of the results that it stands for: those without an aggregate.

    It stays as it is beside window functions, and where a star hides what there is.
    """
    group = select.args.get("group")
    if group is None or {name for name, value in group.args.items() if value} != {"all"}:
        return
    if any(item.is_star or item.find(exp.Window) for item in select.selects):
        return
    places = [n for n, item in enumerate(select.selects, 1) if not any(map(is_aggregate, item.walk()))]
    numbers = [exp.Literal.number(place) for place in places]
    select.set("group", exp.Group(expressions=numbers) if numbers else None)
