"""eKuiper's functions, each with eKuiper's meaning, written in Spark SQL; or refused by name.

What eKuiper has under a name that Spark has with another meaning is never Spark's: indexes count from 0,
``lpad(s, n)`` puts n blanks before, ``log(x)`` is the decimal one. Functions that eKuiper does not have
are Spark's. Sources: eKuiper's manual (sqls/functions), and the engine where the manual is silent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser

from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.dialect import SparkFunctions
from lakestream.language.common.functions import wrong_number
from lakestream.language.common.query_clauses import TDengineParser
from lakestream.language.expressions.parsing import parse_in, place_in
from lakestream.language.reading.durations import read_compound

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.model import Fragment

ORDER = "_ls_order"
"""The column that puts the rows of a window in order, which a calculation may name."""

REFUSED = frozenset(
    {"lead", "last_hit_time", "last_hit_count", "last_agg_hit_time", "last_agg_hit_count"}
    | {"merge_agg", "deduplicate", "agg_by_key", "percentile", "percentile_cont", "unnest", "rule_start"}
    | {"window_trigger", "meta", "mqtt", "get_keyed_state", "delay", "bypass", "props", "newuuid"}
    | {"local_time", "local_timestamp", "cur_date", "cur_time"}
    | {"trunc", "format", "compress", "decompress", "convert_tz", "day_of_week"}
    | {"date_diff", "from_days", "parse_json", "json_path_exists", "json_path_query"}
    | {"json_path_query_first", "array_map", "array_shuffle", "kvpair_array_to_obj", "obj_to_kvpair_array"}
    | {"zip", "items", "object_construct", "object_concat", "object_pick", "object_size", "erase", "values"}
    | {"hex2dec", "dec2hex"}
)
"""Functions of eKuiper that lakestream does not have.

Those that look at other rows than the window's, at messages, or at the clock as text; and those of which
eKuiper's manual says something else than the engine does (``trunc``, ``percentile``, ``day_of_week``, …).
"""

OF_WINDOWS = frozenset({"last_value", "collect", "percentile_disc", "row_number", "tstamp", "rule_id"})
"""Functions that have a place in the list of results and in HAVING, not in a condition over one event."""


class _Parser(TDengineParser):
    """A parser that keeps every call as it is written, so that no name gets another meaning."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        **{name: SparkParser.FUNCTION_PARSERS[name] for name in ("TRY_CAST", "EXTRACT")},
        "CAST": lambda self: self._parse_either_cast(),
    }

    def _parse_either_cast(self) -> exp.Expr | None:
        """Read ``cast(x, 'type')``, which is eKuiper's, and ``CAST(x AS type)``, which is SQL's."""
        index = self._index
        value = self._parse_disjunction()
        if self._match_text_seq(","):
            return exp.Anonymous(this="cast", expressions=[value, self._parse_disjunction()])
        self._retreat(index)
        read: Callable[[_Parser], exp.Expr | None] = SparkParser.FUNCTION_PARSERS["CAST"]
        return read(self)


class _EKuiper(SparkFunctions):
    """lakestream's dialect with eKuiper's calls."""

    Parser = _Parser


_DIALECT = _EKuiper()


@dataclass(frozen=True)
class _Call:
    """A call as a rule sees it: its arguments as SQL, the nodes of them, and what surrounds it.

    ``condition`` is the FILTER behind it; ``zone`` the stream's time zone, empty for UTC.
    """

    arguments: list[str]
    nodes: list[exp.Expr]
    condition: str
    zone: str

    @property
    def filtered(self) -> str:
        return f" FILTER (WHERE {self.condition})" if self.condition else ""

    def local(self, number: int = 0) -> str:
        """Return an argument as a time of the stream's zone; integers are milliseconds since 1970."""
        instant = f"CAST({self.arguments[number]} AS TIMESTAMP)"
        return f"from_utc_timestamp({instant}, '{self.zone}')" if self.zone else instant


@dataclass(frozen=True)
class _Rule:
    """How many arguments a function takes (``most`` None: any number), and what it is in Spark SQL."""

    least: int
    most: int | None
    sql: Callable[[_Call], str]


def query_as_written(f: Fragment) -> exp.Query:
    """Return the tree of a query in which each call has the name that it is written with."""
    tree = parse_in(f, _DIALECT, None)
    assert isinstance(tree, exp.Query)  # it begins with SELECT
    return tree


def translated(f: Fragment, zone: str | None, *, is_list: bool = False) -> Fragment:
    """Return a fragment in which eKuiper's calls are Spark SQL; itself where nothing is to be changed.

    ``is_list``: it is a SELECT up to its FROM, or ORDER BY and LIMIT behind a query. Raises StatementError
    WRONG_ARGUMENTS and NotSupportedError with the place.
    """
    holder = exp.Paren(this=parse_in(f, _DIALECT, None if is_list else exp.Condition))
    changed = False
    for call in reversed(list(holder.find_all(exp.Anonymous))):
        rule = _RULES.get(call.name.lower())
        if rule is None:
            continue
        _check_arguments(f, call, rule)
        outer = call.parent if isinstance(call.parent, exp.Filter) else call
        condition = outer.expression.this.sql("spark") if outer is not call else ""
        nodes = list(call.expressions)
        try:
            sql = rule.sql(_Call([node.sql("spark") for node in nodes], nodes, condition, zone or ""))
        except (StatementError, NotSupportedError) as error:
            raise error.at(place_in(f, call)) from None
        outer.replace(exp.Var(this=sql))
        changed = True
    return replace(f, sql=holder.this.sql("spark")) if changed else f


def _check_arguments(f: Fragment, call: exp.Anonymous, rule: _Rule) -> None:
    if said := wrong_number(f"{call.name}()", len(call.expressions), rule.least, rule.most):
        raise StatementError("WRONG_ARGUMENTS", said, place=place_in(f, call))


# --- rules ---------------------------------------------------------------------------------------


def _same(name: str, count: int = 1, most: int | None = None) -> _Rule:
    """Return the rule of a function that Spark has with this meaning, under a name of its own."""
    return _Rule(count, most or count, lambda call: f"{name}({', '.join(call.arguments)}){call.filtered}")


def _form(form: str, count: int = 1, most: int | None = None) -> _Rule:
    """Return the rule of a scalar function by its form in Spark SQL over ``{0}``, ``{1}``, …."""
    return _Rule(count, most or count, lambda call: form.format(*call.arguments))


def _local(form: str) -> _Rule:
    """Return the rule of a function of one time, ``{0}``, as it is in the stream's zone."""
    return _Rule(1, 1, lambda call: form.format(call.local()))


def _joined(form: str) -> _Rule:
    """Return the rule of a function that joins any number of arguments, each in this form."""
    return _Rule(1, None, lambda call: f"concat({', '.join(form.format(a) for a in call.arguments)})")


def _number(form: str, count: int = 1) -> _Rule:
    """Return the rule of a function whose result is NULL where there is no number."""
    return _form(f"nullif({form}, CAST('NaN' AS DOUBLE))", count)


def _flag(call: _Call, number: int, name: str) -> bool:
    node = call.nodes[number]
    if not isinstance(node, exp.Boolean):
        raise StatementError("WRONG_ARGUMENTS", f"{name}(): true or false, not {node.sql('spark')}")
    return bool(node.this)


def _text(call: _Call, number: int, name: str) -> str:
    node = call.nodes[number]
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise StatementError("WRONG_ARGUMENTS", f"{name}(): a text in quotes, not {node.sql('spark')}")
    return str(node.this)


def _last_value(call: _Call) -> str:
    """last_value(x, ignores_null): the value of the window's last row, or of the last that has one."""
    value = call.arguments[0]
    order = f"CASE WHEN {value} IS NOT NULL THEN {ORDER} END" if _flag(call, 1, "last_value") else ORDER
    return f"max_by({value}, {order}){call.filtered}"


def _collect(call: _Call) -> str:
    """collect(x): the values of the rows in their order, NULLs among them; a table has it by to_json."""
    if isinstance(call.nodes[0], exp.Star):
        raise NotSupportedError("collect(*)", hint="collect(column)")
    pairs = f"collect_list(struct({ORDER} AS o, {call.arguments[0]} AS v)){call.filtered}"
    return f"transform(array_sort({pairs}), pair -> pair.v)"


def _percentile_disc(call: _Call) -> str:
    """percentile_disc(x, p): the smallest value that a share p of the values does not exceed."""
    values = f"array_sort(collect_list(CAST({call.arguments[0]} AS DOUBLE)){call.filtered})"
    at = f"CAST(greatest(ceil({call.arguments[1]} * size(v)), 1) AS INT) - 1"
    return f"element_at(transform(array({values}), v -> get(v, {at})), 1)"


def _cast(call: _Call) -> str:
    kind = _text(call, 1, "cast").lower()
    if kind not in _TYPES:
        raise StatementError(
            "WRONG_ARGUMENTS", f"cast(): there is no type {kind}", hint=f"one of {', '.join(_TYPES)}"
        )
    return f"CAST({call.arguments[0]} AS {_TYPES[kind]})"


_TYPES = {
    "bigint": "BIGINT",
    "float": "DOUBLE",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "datetime": "TIMESTAMP",
}


def _base64(form: str, name: str) -> _Rule:
    def rule(call: _Call) -> str:
        if _text(call, 1, name).lower() != "base64":
            raise NotSupportedError(f"{name}() by another encoding than base64")
        return form.format(*call.arguments)

    return _Rule(2, 2, rule)


def _substring(call: _Call) -> str:
    """substring(s, start[, end]): from 0, the end not included (the engine, not the manual)."""
    text, start, *end = call.arguments
    for node in call.nodes[1:]:
        if isinstance(node, exp.Neg):
            raise StatementError("WRONG_ARGUMENTS", "substring(): places count from 0")
    return f"substring({text}, ({start}) + 1{f', ({end[0]}) - ({start})' if end else ''})"


def _format_time(call: _Call) -> str:
    pattern = _pattern(_text(call, 1, "format_time"), zoned=not call.zone)
    return f"date_format({call.local()}, {exp.Literal.string(pattern).sql('spark')})"


def _pattern(pattern: str, *, zoned: bool) -> str:
    """Return a pattern of eKuiper as Java's: letters that name nothing are themselves."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        end = at + 1
        while end < len(pattern) and pattern[end] == letter:
            end += 1
        run = pattern[at:end]
        if letter in "Yy" and len(run) not in (2, 4):
            raise StatementError("WRONG_ARGUMENTS", f"format_time(): {run} is no year", hint="YYYY or YY")
        if letter in "zZX" and not zoned:
            raise NotSupportedError("format_time() with a zone in a stream with TIMEZONE")
        if letter in "Yy":
            parts.append("y" * len(run))
        elif letter == "S":
            parts.append(run if parts and parts[-1].endswith(".") else f".{run}")
        elif letter == "X":
            parts.append("x" * len(run))
        elif letter in "GMdEHhamszZ'" or not letter.isalpha():
            parts.append(run)
        else:
            parts.append(f"'{run}'")
        at = end
    return "".join(parts)


def _date_calc(call: _Call) -> str:
    text = _text(call, 1, "date_calc")
    micros = read_compound(text.removeprefix("-")) * (-1 if text.startswith("-") else 1)
    moved = f"timestamp_micros(unix_micros({call.local()}) + ({micros}))"
    return f"date_format({moved}, 'yyyy-MM-dd HH:mm:ss')"


def _from_unix_time(call: _Call) -> str:
    """from_unix_time(s): seconds since 1970 as text, NULL for 0."""
    seconds = call.arguments[0]
    local = replace(call, arguments=[f"timestamp_seconds({seconds})"]).local()
    return f"CASE WHEN {seconds} <> 0 THEN date_format({local}, 'yyyy-MM-dd HH:mm:ss') END"


def _log(call: _Call) -> str:
    """log(x) is decimal, log(b, x) of the base b; NULL where there is none, or b is at most 1."""
    if len(call.arguments) == 1:
        return f"log10({call.arguments[0]})"
    base, value = call.arguments
    return f"CASE WHEN {base} > 1 THEN log({base}, {value}) END"


def _row_number(call: _Call) -> str:
    del call
    return f"row_number() OVER (ORDER BY {ORDER})"


_BLANK = r"\\s"
_RULES: dict[str, _Rule] = {
    # aggregates
    "last_value": _Rule(2, 2, _last_value),
    "collect": _Rule(1, 1, _collect),
    "percentile_disc": _Rule(2, 2, _percentile_disc),
    "stddev": _same("stddev_pop"),
    "stddevs": _same("stddev_samp"),
    "var": _same("var_pop"),
    "vars": _same("var_samp"),
    # texts
    "concat": _joined("coalesce(CAST({0} AS STRING), '')"),
    "endswith": _form("coalesce(endswith({0}, {1}), false)", 2),
    "startswith": _form("coalesce(startswith({0}, {1}), false)", 2),
    "indexof": _form("coalesce(instr({0}, {1}) - 1, -1)", 2),
    "length": _form("coalesce(length({0}), 0)"),
    "numbytes": _form("coalesce(octet_length({0}), 0)"),
    "lpad": _form("concat(repeat(' ', {1}), {0})", 2),
    "rpad": _form("concat({0}, repeat(' ', {1}))", 2),
    "ltrim": _form(f"regexp_replace({{0}}, '^{_BLANK}+', '')"),
    "rtrim": _form(f"regexp_replace({{0}}, '{_BLANK}+$', '')"),
    "trim": _form(f"regexp_replace({{0}}, '^{_BLANK}+|{_BLANK}+$', '')"),
    "regexp_matches": _form("coalesce({0} RLIKE {1}, false)", 2),
    "regexp_substring": _form("CASE WHEN {0} IS NOT NULL THEN coalesce(regexp_substr({0}, {1}), '') END", 2),
    "regexp_substr": _form("CASE WHEN {0} IS NOT NULL THEN coalesce(regexp_substr({0}, {1}), '') END", 2),
    "regexp_replace": _same("regexp_replace", 3),
    "substring": _Rule(2, 3, _substring),
    "split_value": _form(r"get(split({0}, concat('\\Q', {1}, '\\E')), {2})", 3),
    "lower": _same("lower"),
    "upper": _same("upper"),
    # numbers
    "acos": _number("acos({0})"),
    "asin": _number("asin({0})"),
    "sqrt": _number("sqrt({0})"),
    "bitand": _form("(({0}) & ({1}))", 2),
    "bitor": _form("(({0}) | ({1}))", 2),
    "bitxor": _form("(({0}) ^ ({1}))", 2),
    "bitnot": _form("(~({0}))"),
    "log": _Rule(1, 2, _log),
    "mod": _same("try_mod", 2),
    "round": _same("round"),
    "sign": _same("sign"),
    "power": _same("power", 2),
    # times
    "format_time": _Rule(2, 2, _format_time),
    "date_calc": _Rule(2, 2, _date_calc),
    "day_name": _local("date_format({0}, 'EEEE')"),
    "month_name": _local("date_format({0}, 'MMMM')"),
    "day_of_month": _local("day({0})"),
    "day": _local("day({0})"),
    "day_of_year": _local("dayofyear({0})"),
    "hour": _local("hour({0})"),
    "minute": _local("minute({0})"),
    "second": _local("second({0})"),
    "month": _local("month({0})"),
    "year": _local("year({0})"),
    "microsecond": _local("pmod(unix_micros({0}), 1000000)"),
    "last_day": _local("date_format(last_day({0}), 'yyyy-MM-dd')"),
    "from_unix_time": _Rule(1, 1, _from_unix_time),
    "to_seconds": _form("unix_seconds(CAST({0} AS TIMESTAMP))"),
    "tstamp": _form("(_tlocaltime div 1000000)", 0),
    # conversions
    "cast": _Rule(2, 2, _cast),
    "encode": _base64("base64({0})", "encode"),
    "decode": _base64("unbase64({0})", "decode"),
    "sha256": _form("sha2({0}, 256)"),
    "sha384": _form("sha2({0}, 384)"),
    "sha512": _form("sha2({0}, 512)"),
    "crc32": _form("lower(hex(crc32({0})))"),
    # arrays and maps
    "cardinality": _form("CASE WHEN {0} IS NULL THEN 0 ELSE size({0}) END"),
    "array_cardinality": _form("CASE WHEN {0} IS NULL THEN 0 ELSE size({0}) END"),
    "array_position": _form("coalesce(array_position({0}, {1}) - 1, -1)", 2),
    "array_last_position": _form(
        "CASE WHEN coalesce(array_position({0}, {1}), 0) = 0 THEN -1 "
        "ELSE size({0}) - array_position(reverse({0}), {1}) END",
        2,
    ),
    "element_at": _form("CASE WHEN {1} < 0 THEN get({0}, size({0}) + ({1})) ELSE get({0}, {1}) END", 2),
    "array_contains_any": _form("coalesce(arrays_overlap({0}, {1}), false)", 2),
    "array_create": _Rule(1, None, lambda call: f"array({', '.join(call.arguments)})"),
    "array_avg": _form(
        "(aggregate(filter({0}, x -> x IS NOT NULL), CAST(0 AS DOUBLE), (s, x) -> s + x) "
        "/ nullif(size(filter({0}, x -> x IS NOT NULL)), 0))"
    ),
    "array_flatten": _same("flatten"),
    "array_concat": _joined("coalesce({0}, array())"),
    "repeat": _same("array_repeat", 2),
    "keys": _same("map_keys"),
    "object": _same("map_from_arrays", 2),
    # the rest
    "row_number": _Rule(0, 0, _row_number),
}
"""What eKuiper's functions are in Spark SQL; those that are not here mean the same there."""

SAME = frozenset(
    {"abs", "atan", "atan2", "ceil", "cos", "cosh", "exp", "ln", "sin", "sinh", "tan", "tanh"}
    | {"avg", "count", "max", "min", "sum", "median", "coalesce", "isnull", "chr", "md5", "sha1"}
    | {"array_contains", "array_remove", "array_intersect", "array_union", "array_max", "array_min"}
    | {"array_except", "sequence", "array_distinct", "array_join", "array_sort"}
    | {"to_json"}
)
"""Functions of eKuiper's manual that Spark has under their name with their meaning."""

BUILT = frozenset(_RULES)
