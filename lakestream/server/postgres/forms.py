"""What only PostgreSQL says, in the words of a lake: forms of a query whose functions stay the lake's.

Tools that make queries (Grafana's macros, Superset's time grains, Metabase, SQLAlchemy) write these for
PostgreSQL whatever answers. A query that has none of them is the lake's own and stays as it is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, cast

from pg_mimic import ARRAY_OID
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError
from sqlglot.parsers.postgres import PostgresParser

from lakestream.language.common.dialect import SparkFunctions, TDengine
from lakestream.language.common.spark_parser import ShortIntervals
from lakestream.language.common.templates import made, put_in_place
from lakestream.server.postgres.catalog.queries import OIDS, as_named, elements
from lakestream.server.postgres.failing import refusal
from lakestream.server.postgres.lengths import is_of_pairs, is_plain, length
from lakestream.server.postgres.wording import NAMED, parameters_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Columns = Mapping[tuple[str, str], Sequence[tuple[str, str]]]
    """Columns and their types by database and table; the current database's stand under no name, too."""
    Form = Callable[[exp.Expr], exp.Expr]


def _cut(arguments: list[exp.Expr]) -> exp.Expr:
    """Return date_trunc(), which may have a zone here."""
    node = TDengine.Parser.FUNCTIONS["DATE_TRUNC"](arguments[:2])
    if len(arguments) == 3:
        node.set("zone", arguments[2])
    return node


class _Parser(ShortIntervals, PostgresParser):
    """PostgreSQL's grammar, in which functions are those of a lake."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: build for name, build in TDengine.Parser.FUNCTIONS.items() if name != "DATE_BIN"
    } | {"GENERATE_SERIES": PostgresParser.FUNCTIONS["GENERATE_SERIES"], "DATE_TRUNC": _cut}

    def _parse_interval_span(self, this, *args, **named):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN003, ANN202
        is_whole = isinstance(this, exp.Literal) and this.is_string and not is_of_pairs(this.name)
        if is_whole and not (self._curr and self._curr.text.upper() in self.dialect.VALID_INTERVAL_UNITS):
            return exp.Interval(this=this)  # of such a text sqlglot keeps no more than its first part
        return super()._parse_interval_span(this, *args, **named)  # type: ignore[no-untyped-call]


class _Spoken(Postgres):
    """Queries of PostgreSQL's clients; elements of arrays and the order of NULLs are counted as in a lake."""

    INDEX_OFFSET = 0
    NULL_ORDERING = "nulls_are_small"
    Parser = _Parser


_SPOKEN, _LAKE = _Spoken(), SparkFunctions()
_MONDAY = "TIMESTAMP '2000-01-03 00:00:00'"
"""What TimescaleDB counts its buckets from."""
_UTC = frozenset({"UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z", "ZULU", "UCT"})
"""Zones in which local times are those of instants."""
_LOCAL = "is_local"
_SIMILAR = re.compile(r"\\.|\[[^\]]*\]|[%_.^$]", re.DOTALL)
_SIMILAR_PARTS = {"%": ".*", "_": "."}
_OCTAL = re.compile(rb"\\(?:([0-7]{3})|\\)")
_WRITES = (exp.Insert, exp.Update, exp.Delete)
_EXTRACTED = {
    "DOW": "dayofweek(_1) - 1",
    "ISODOW": "weekday(_1) + 1",
    "MILLISECOND": "date_part('SECOND', _1) * 1000",
    "MICROSECOND": "date_part('SECOND', _1) * 1000000",
}
_EPOCH = "unix_micros(CAST(_1 AS TIMESTAMP)) / 1000000"


def types_told(sql: str, columns: Columns | None = None) -> dict[int, int]:
    """Return the types of parameters, by their numbers, that a statement itself tells.

    Casts and LIMIT tell them; with ``columns`` so do those that parameters are compared with, or written to.
    """
    try:
        tree = _SPOKEN.parse(OIDS.sub(f"::{_OIDS}", parameters_named(sql)))[0]
    except SqlglotError:
        return {}
    told: dict[int, int] = {}
    if tree is None:
        return told
    types = _Types(tree, columns)
    for node in tree.find_all(exp.Parameter):
        number = node.name.removeprefix(NAMED)
        kind = _type_told(node, types) if number.isdigit() else None
        if kind is not None:
            told.setdefault(int(number), kind)
    return told


def _type_told(node: exp.Expr, types: _Types) -> int | None:
    """Return the type of a parameter by what is around it, None where that tells none."""
    while isinstance(node.parent, (exp.Paren, exp.Neg)):
        node = node.parent
    above = node.parent
    if isinstance(above, exp.Cast):
        return _number_of(above.to)
    if isinstance(above, (exp.Limit, exp.Offset)):
        return _NUMBERED[exp.DType.BIGINT]
    if isinstance(above, exp.Any) or (isinstance(above, exp.Anonymous) and above.name.lower() == "all"):
        return types.listed_beside(above)
    if isinstance(above, exp.Tuple) and isinstance(above.parent, exp.Values):
        return types.written(above, node)
    return types.beside(node) if isinstance(above, _TELLING) else None


_TELLING = (exp.Binary, exp.Between, exp.In, exp.Coalesce, exp.Nullif)


class _Types:
    """The types of the columns that a statement names."""

    def __init__(self, tree: exp.Expr, columns: Columns | None) -> None:
        self._tables: dict[str, dict[str, str]] = {}
        self._are_known = columns is not None
        for table in tree.find_all(exp.Table) if columns else ():
            found = {name.lower(): kind for name, kind in columns.get((table.db, table.name), ())}  # type: ignore[union-attr]
            self._tables[table.alias_or_name] = found

    def beside(self, node: exp.Expr) -> int | None:
        """Return the type of a column, or of a cast, that an expression stands beside."""
        assert node.parent is not None  # by who asks
        for side in node.parent.iter_expressions():
            if isinstance(side, exp.Cast):
                return _number_of(side.to)
            if isinstance(side, exp.Column) and (kind := self._of(side)) is not None:
                is_moved = isinstance(node.parent, (exp.Add, exp.Sub)) and kind in _MOMENTS
                return _INTERVAL if is_moved else kind
        return None

    def listed_beside(self, node: exp.Expr) -> int | None:
        """Return the type of an array whose values something is compared with: texts where nothing tells."""
        kind = self.beside(node)
        return None if kind is None and not self._are_known else ARRAY_OID.get(kind or _TEXT, _TEXTS)

    def _of(self, column: exp.Column) -> int | None:
        for name, columns in self._tables.items():
            if column.table in ("", name) and column.name.lower() in columns:
                return _number_named(columns[column.name.lower()])
        return None

    def written(self, row: exp.Expr, value: exp.Expr) -> int | None:
        """Return the type of the column that a value of a row of INSERT is written to."""
        insert = row.find_ancestor(exp.Insert)
        if insert is None or not isinstance(row.parent, exp.Values) or row.parent.parent is not insert:
            return None
        columns = next(iter(self._tables.values()), {})
        listed = insert.this.expressions if isinstance(insert.this, exp.Schema) else ()
        names = [one.name.lower() for one in listed] or [*columns]
        at = next(at for at, one in enumerate(row.expressions) if one is value)
        kind = columns.get(names[at]) if at < len(names) else None
        return None if kind is None else _number_named(kind)


def _number_named(kind: str) -> int | None:
    """Return PostgreSQL's number of a column's type, None for one that is no simple one."""
    return _NAMED_NUMBERS.get(kind.partition("(")[0])


_MOMENTS, _INTERVAL = (1082, 1114, 1184), 1186
_NAMED_NUMBERS = {
    "boolean": 16,
    "binary": 17,
    "bigint": 20,
    "tinyint": 21,
    "smallint": 21,
    "int": 23,
    "string": 25,
    "float": 700,
    "double": 701,
    "date": 1082,
    "timestamp": 1184,
    "decimal": 1700,
    "oid": 26,
}


def _number_of(kind: exp.DataType) -> int | None:
    """Return PostgreSQL's number of the type of a cast, None where a parameter's may be another."""
    if kind.text("kind") == _OIDS:
        return ARRAY_OID[_OID]
    if not kind.is_type("array"):
        return _NUMBERED.get(kind.this)
    [element] = kind.expressions or [exp.DataType.build("text")]
    return ARRAY_OID.get(_NUMBERED.get(element.this, _TEXT), _TEXTS)


_NUMBERED = {
    exp.DType.BOOLEAN: 16,
    exp.DType.BIGINT: 20,
    exp.DType.SMALLINT: 21,
    exp.DType.INT: 23,
    exp.DType.FLOAT: 700,
    exp.DType.DOUBLE: 701,
    exp.DType.DATE: 1082,
    exp.DType.TIMESTAMP: 1114,
    exp.DType.TIMESTAMPTZ: 1184,
    exp.DType.DECIMAL: 1700,
    exp.DType.VARBINARY: 17,
    exp.DType.TIME: 1083,
    exp.DType.INTERVAL: 1186,
    exp.DType.UUID: 2950,
}
"""PostgreSQL's numbers of types."""
_TEXT, _TEXTS, _OID, _OIDS = 25, 1009, 26, "oids"


def in_lakes_words(sql: str, connected_to: str) -> str | None:
    """Return a statement of PostgreSQL's as a lake reads it, None where no form is PostgreSQL's alone.

    A table may be named by three names, the first of which is what the client is ``connected_to``.
    Raises PgError for a form that a lake has nothing for.
    """
    try:
        tree = _SPOKEN.parse(sql)[0]
    except SqlglotError:
        return None
    if not isinstance(tree, (exp.Query, *_WRITES)) or not _has_form(tree):
        return None
    for named in tree.find_all(exp.Table, exp.Column):
        if named.text("catalog") == connected_to:
            named.set("catalog", None)
    meant = _rewritten(as_named(tree) if isinstance(tree, exp.Query) else tree)
    try:
        return _LAKE.generate(meant, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        return None


def _has_form(tree: exp.Expr) -> bool:
    return any(_meant(node) is not node or _is_rewritten(node) for node in tree.walk())


def _is_rewritten(node: exp.Expr) -> bool:
    """Return whether sqlglot writes a node otherwise for a lake: ``~``, casts, arrays, ``DISTINCT ON``."""
    is_named = isinstance(node, exp.Distinct) and bool(node.args.get("on"))
    is_named |= isinstance(node, exp.Array) and "value_constructor" in node.args  # ARRAY[…]
    return is_named or isinstance(node, (exp.RegexpLike, exp.Cast))


def _rewritten(tree: exp.Expr) -> exp.Expr:
    # From the leaves up: what is put in a node's place is made of parts that are done.
    for node in reversed(list(tree.walk())):
        meant = _meant(node)
        if meant is not node:
            put_in_place(node, meant)
    return tree


def _meant(node: exp.Expr) -> exp.Expr:
    form = _FORMS.get(type(node))
    return node if form is None else form(node)


# --- times ---------------------------------------------------------------------------------------


def _extract(node: exp.Expr) -> exp.Expr:
    part, value = node.name.upper().removesuffix("S"), node.expression.unnest()
    if part == "EPOCH":
        return _epoch(value)
    text = _EXTRACTED.get(part)
    return node if text is None else made(text, {"_1": value})


def _epoch(value: exp.Expr) -> exp.Expr:
    """Return the seconds since 1970 of an instant, or those between two."""
    if isinstance(value, exp.Sub) and not _is_length(value.expression):
        begin, end = _epoch(value.expression.unnest()), _epoch(value.this.unnest())
        return exp.paren(exp.Sub(this=end, expression=begin))
    return made(_EPOCH, {"_1": value})


def _is_length(node: exp.Expr) -> bool:
    return any(isinstance(part, exp.Interval) for part in node.walk()) or node.is_type("interval")


def _interval(node: exp.Expr) -> exp.Expr:
    unit = node.args.get("unit")
    text = f"{node.name} {unit.name}" if isinstance(unit, exp.Var) else node.name
    if not isinstance(node.this, exp.Literal) or isinstance(unit, exp.IntervalSpan) or is_plain(text):
        return node
    return _length(text) if node.this.is_string or isinstance(unit, exp.Var) else node


def _length(text: str) -> exp.Expr:
    """Return an interval that is written as PostgreSQL does. Raises PgError for another text."""
    meant = length(text)
    if meant is None:
        raise refusal("22007", f"BAD_VALUE: {text!r} is no interval", "'1 day 02:03:04', '2 hours 5 minutes'")
    return exp.Interval(this=exp.Literal.string(meant))


def _at_zone(node: exp.Expr) -> exp.Expr:
    return _in_zone(node.this, node.args["zone"])


def _in_zone(value: exp.Expr, zone: exp.Expr) -> exp.Expr:
    """Return an instant as the local time of a zone; of what is a local time, the instant."""
    is_local = _is_local(value)
    if zone.is_string and zone.name.upper() in _UTC:
        # Both are the same there, and nobody need be asked for it: what the brackets are is noted.
        return _noted(value.copy(), is_local=not is_local)
    if isinstance(zone.unnest(), exp.Interval):
        raise refusal("0A000", "NOT_SUPPORTED: AT TIME ZONE of an interval", "the name of a zone")
    name = "to_utc_timestamp" if is_local else "from_utc_timestamp"
    return exp.Anonymous(this=name, expressions=[value.copy(), _zone(zone)])


def _noted(value: exp.Expr, *, is_local: bool) -> exp.Expr:
    noted = exp.Paren(this=value)
    noted.meta[_LOCAL] = is_local
    return noted


def _zone(zone: exp.Expr) -> exp.Expr:
    """Return a zone as Spark names it: PostgreSQL counts hours west of UTC, as POSIX does."""
    found = _OFFSET.fullmatch(zone.name) if zone.is_string else None
    if found is None:
        return zone.copy()
    east, hours, minutes = found[1] == "-", int(found[2]), int(found[3] or 0)
    return exp.Literal.string(f"{'+' if east else '-'}{hours:02d}:{minutes:02d}")


_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)


def _is_local(value: exp.Expr) -> bool:
    """Return whether a value is seen to be a time without a zone: one that was made so, or is made of one."""
    if _LOCAL in value.meta:
        return bool(value.meta[_LOCAL])
    if isinstance(value, exp.Cast):
        return value.to.is_type("timestamp")
    if isinstance(value, exp.Anonymous):
        name = value.name.lower()
        return name == "from_utc_timestamp" or (
            name in _CALLS_OF_THEIR_KIND and any(map(_is_local, value.expressions))
        )
    if isinstance(value, exp.If):
        return any(_is_local(one) for one in (value.args.get("true"), value.args.get("false")) if one)
    if isinstance(value, exp.Case):
        return any(map(_is_local, [*value.args["ifs"], *filter(None, [value.args.get("default")])]))
    return isinstance(value, _OF_THEIR_KIND) and any(map(_is_local, value.iter_expressions()))


_OF_THEIR_KIND = (
    *(exp.Paren, exp.TimestampTrunc, exp.Add, exp.Sub, exp.Max, exp.Min, exp.Coalesce, exp.Greatest),
    *(exp.Least, exp.Nullif, exp.Filter, exp.AnyValue),
)
_CALLS_OF_THEIR_KIND = frozenset(
    {"time_bucket", "timetruncate", "greatest", "least", "coalesce", "ifnull", "nvl", "first", "last", "if"}
)
"""What gives a time of the kind of those that it is made of."""


def _truncated(node: exp.Expr) -> exp.Expr:
    """Return date_trunc() in a zone by what it means: the instant at which the local day begins."""
    zone = node.args.get("zone")
    if zone is None:
        return node
    local = _noted(_in_zone(node.this, zone), is_local=True)
    cut = exp.TimestampTrunc(this=local, unit=node.args["unit"].copy())
    return _in_zone(_noted(cut, is_local=True), zone)


def _now(_: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="now")


def _bucket(step: exp.Expr, instant: exp.Expr, origin: exp.Expr | None) -> exp.Expr:
    parts = {"_1": _as_length(step), "_2": instant, "_3": origin or made(_MONDAY, {})}
    return made("time_bucket(_1, _2, _3)", parts)


def _as_length(step: exp.Expr) -> exp.Expr:
    return _length(step.name) if isinstance(step, exp.Literal) and step.is_string else step


# --- the rest ------------------------------------------------------------------------------------


def _call(node: exp.Expr) -> exp.Expr:
    given = node.expressions
    match node.name.lower(), len(given):
        case "age", 1 | 2:
            # Months and days together are no value of a lake's.
            raise refusal("0A000", "NOT_SUPPORTED: age()", "b - a, or extract(epoch from (b - a))")
        case "transaction_timestamp" | "statement_timestamp" | "clock_timestamp", 0:
            return _now(node)
        case "timezone", 2:
            return _in_zone(given[1], given[0])
        case "time_bucket" | "date_bin", 2 | 3:
            return _bucket(given[0], given[1], given[2] if len(given) == 3 else None)
        case "to_timestamp", 1:
            return made("timestamp_seconds(_1)", {"_1": given[0]})
        case "to_date", 2:
            # Patterns of to_timestamp() are PostgreSQL's in a lake, those of to_date() Spark's.
            return made("CAST(to_timestamp(_1, _2) AS DATE)", {"_1": given[0], "_2": given[1]})
        case _:
            return node


def _cast(node: exp.Expr) -> exp.Expr:
    value: exp.Expr = node.this
    to: exp.DataType = node.args["to"]
    if isinstance(value, exp.ByteString):  # E'…'
        value = exp.Literal.string(value.name)
        node.set("this", value)
    if isinstance(value, exp.Literal) and value.is_string and to.is_type("varbinary"):
        return _bytes(value.name, is_put=_is_written(node) and node.find_ancestor(exp.Where) is None)
    if isinstance(value, (exp.Literal, exp.Null)) and _is_written(node):
        return value  # it becomes what the column is that it is put into, or compared with
    if isinstance(value, exp.Literal) and value.is_string:
        return _constant(value, to) or _of_type(node)
    return _of_type(node)


def _bytes(text: str, *, is_put: bool) -> exp.Expr:
    """Return the bytes that a text of PostgreSQL's says, or the text that a column takes for them."""
    digits = text[2:] if text.startswith("\\x") else _octal_bytes(text).hex()
    if is_put:
        return exp.Literal.string(f"\\x{digits}")
    return made("unhex(_1)", {"_1": exp.Literal.string(digits)})


def _octal_bytes(text: str) -> bytes:
    r"""Return the bytes of a text in which a backslash stands before three octal digits, or another one."""
    return _OCTAL.sub(lambda part: bytes([int(part[1], 8) & 255]) if part[1] else b"\\", text.encode())


def _is_written(node: exp.Expr) -> bool:
    """Return whether a node is one of a statement that writes, and not of a query in it."""
    return isinstance(node.find_ancestor(exp.Select, *_WRITES), _WRITES)


_SAID = {"t": True, "true": True, "f": False, "false": False}
_NUMBERS = {
    "smallint": re.compile(r"[+-]?\d{1,4}"),
    "int": re.compile(r"[+-]?\d{1,9}"),
    "bigint": re.compile(r"[+-]?\d{1,18}"),
    "double": re.compile(r"[+-]?(?=[\d.]{1,16}\Z)\d{1,15}(\.\d{1,14})?"),
}
"""Constants that are the numbers they say, of whatever reads them."""


def _constant(text: exp.Expr, to: exp.DataType) -> exp.Expr | None:
    """Return a text that is written as PostgreSQL's values of a type are; None where a lake's are alike."""
    if to.is_type("interval"):
        return _as_length(text)
    if to.is_type("array"):
        return elements(text.name, to.expressions[0] if to.expressions else exp.DataType.build("text"))
    if to.is_type("timestamp", "timestamptz") and text.name == "epoch":
        return made("TIMESTAMP '1970-01-01 00:00:00Z'", {})
    if to.is_type("boolean") and (said := _SAID.get(text.name.strip().lower())) is not None:
        return exp.Boolean(this=said)
    form = next((form for kind, form in _NUMBERS.items() if to.is_type(kind)), None)
    if form is not None and form.fullmatch(text.name):
        number = text.name.removeprefix("+") + "e0" * to.is_type("double")
        return exp.cast(made(number, {}), to)
    return None


def _of_type(node: exp.Expr) -> exp.Expr:
    to: exp.DataType = node.args["to"]
    value: exp.Expr = node.this
    if to.is_type("decimal") and not to.expressions:
        return made("CAST(_1 AS DECIMAL(38, 10))", {"_1": value})
    return value if to.is_type("json", "jsonb") else node


def _compared(node: exp.Expr) -> exp.Expr:
    """Return ``x = ANY(array)`` and ``x <> ALL(array)`` as being in it, and not."""
    among = _array_of(node.expression, is_any=isinstance(node, exp.EQ))
    if among is None or isinstance(among, exp.Query):
        return node
    found = _found(among, node.this)
    return found if isinstance(node, exp.EQ) else exp.Not(this=found)


def _found(among: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Return whether a value is in an array, which may be written: then as it is in a list, or in none."""
    kind: exp.DataType | None = None
    if isinstance(among, exp.Cast) and among.is_type("array"):
        kind, among = next(iter(among.to.expressions), None), among.this.unnest()
    if isinstance(among, exp.Null):
        return exp.EQ(this=value.copy(), expression=exp.Null())
    if not isinstance(among, exp.Array):
        return made("array_contains(_1, _2)", {"_1": among, "_2": value})
    items = [
        one.copy() if kind is None or _is_written_as(one, kind) else exp.cast(one.copy(), kind.copy())
        for one in among.expressions
    ]
    return exp.In(this=value.copy(), expressions=items) if items else exp.false()


def _is_written_as(item: exp.Expr, kind: exp.DataType) -> bool:
    """Return whether an element is written as a value of its type is."""
    item = item.unnest()
    item = item.this if isinstance(item, exp.Neg) else item
    if isinstance(item, exp.Null):
        return True
    is_text = kind.is_type("text", "varchar")
    return isinstance(item, exp.Literal) and (item.is_string if is_text else item.is_int)


def _array_of(quantified: exp.Expr, *, is_any: bool) -> exp.Expr | None:
    """Return the array of ``ANY(array)``, or of ``ALL(array)``; None for something else."""
    if is_any:
        return cast("exp.Expr", quantified.this).unnest() if isinstance(quantified, exp.Any) else None
    is_all = isinstance(quantified, exp.Anonymous) and quantified.name.upper() == "ALL"
    return quantified.expressions[0] if is_all and len(quantified.expressions) == 1 else None


def _matches(node: exp.Expr) -> exp.Expr:
    return made("_1 RLIKE concat('(?i)', _2)", {"_1": node.this, "_2": node.expression})


def _similar(node: exp.Expr) -> exp.Expr:
    """Return ``SIMILAR TO 'pattern'`` as a regular expression; of a pattern that is no constant it stays."""
    if not (isinstance(node.expression, exp.Literal) and node.expression.is_string):
        return node
    meant = _SIMILAR.sub(lambda part: _similar_part(part[0]), node.expression.name)
    return made("_1 RLIKE _2", {"_1": node.this, "_2": exp.Literal.string(f"(?s)^(?:{meant})$")})


def _similar_part(part: str) -> str:
    return part if part.startswith("[") else _SIMILAR_PARTS.get(part, f"\\{part[-1]}")


def _source(node: exp.Expr) -> exp.Expr:
    """Return ``generate_series(…) AS t`` in FROM as a query of that name."""
    series, alias = node.this, node.args.get("alias")
    if not isinstance(series, exp.ExplodingGenerateSeries):
        return node
    columns = alias.columns if alias is not None else []
    name = alias.name if alias is not None else "generate_series"
    item = exp.alias_(_exploded(series), columns[0].name if columns else name, quoted=True)
    return exp.select(item).subquery(name)


def _series(node: exp.Expr) -> exp.Expr:
    return node if isinstance(node.parent, exp.Table) else _exploded(node)


def _exploded(node: exp.Expr) -> exp.Expr:
    parts = {"_1": node.args["start"], "_2": node.args["end"]}
    step = node.args.get("step")
    if step is None:
        return made("explode(sequence(_1, _2))", parts)
    return made("explode(sequence(_1, _2, _3))", parts | {"_3": _as_length(step)})


def _counted(node: exp.Expr) -> exp.Expr:
    """Return LIMIT and OFFSET without casts of their number; of NULL, which is none, as PostgreSQL does."""
    value = node.expression
    while isinstance(value, exp.Cast | exp.Paren):
        value = value.this
    if isinstance(value, exp.Null):
        value = exp.Literal.number(_ALL if isinstance(node, exp.Limit) else 0)
    if value is node.expression or not isinstance(value, exp.Literal):
        return node
    return type(node)(expression=value.copy())


_ALL = 2**31 - 1
"""More rows than a result may have."""


def _minus(node: exp.Expr) -> exp.Expr:
    """Return the days between two dates, where a lake has a length of time."""
    sides = node.this.unnest(), node.expression.unnest()
    if not all(map(_is_date, sides)):
        return node
    return made("datediff(_1, _2)", {"_1": sides[0], "_2": sides[1]})


def _is_date(value: exp.Expr) -> bool:
    return isinstance(value, exp.CurrentDate) or (isinstance(value, exp.Cast) and value.to.is_type("date"))


_FORMS: Mapping[type[exp.Expr], Form] = {
    exp.Extract: _extract,
    exp.Interval: _interval,
    exp.AtTimeZone: _at_zone,
    exp.Anonymous: _call,
    exp.Cast: _cast,
    exp.EQ: _compared,
    exp.NEQ: _compared,
    exp.RegexpILike: _matches,
    exp.Limit: _counted,
    exp.Offset: _counted,
    exp.Sub: _minus,
    exp.SimilarTo: _similar,
    exp.TimestampTrunc: _truncated,
    exp.CurrentTimestamp: _now,
    exp.Localtimestamp: lambda node: _noted(_now(node), is_local=True),
    exp.ExplodingGenerateSeries: _series,
    exp.Table: _source,
}
