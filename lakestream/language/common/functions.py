"""The table of TDengine's functions of one row: what each is in Spark SQL, or why it is refused.

A name that TDengine knows has TDengine's meaning here or is refused; a name that only Spark knows is
Spark's. Functions over several rows are in :mod:`lakestream.compute.expressions.functions`.

In the texts ``_1``, ``_2``, … are the arguments, ``_t1`` the first as an instant, ``_l1`` as the local time
of the lake's zone, ``_o1`` the zone's minutes before UTC then, ``_zone`` its name and ``_now`` the instant
that NOW is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from sqlglot import exp

from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.templates import made
from lakestream.language.common.time_formats import read_time, shown_time
from lakestream.language.quoting import quoted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SAME = frozenset(
    {"abs", "atan", "coalesce", "concat", "cos", "degrees", "if", "ifnull", "isnotnull", "isnull", "ln"}
    | {"lower", "ltrim", "md5", "nullif", "nvl", "nvl2", "pi", "radians", "repeat", "replace", "rtrim"}
    | {"sin", "sha", "sha1", "substring_index", "tan", "upper", "rand"}
)
"""Functions of one row that Spark has under the same name, with the same meaning."""

_FINITE = "CASE WHEN abs({0}) < double('Infinity') THEN {0} END"
_SET = "array_position(split(_2, concat('\\\\Q', {0}, '\\\\E'), -1), _1)"
_MATCHING = (
    "CASE WHEN _1 IS NOT NULL THEN coalesce(element_at(filter(transform("
    "split(_2, concat('\\\\Q', {0}, '\\\\E'), -1), "
    "(_item, _at) -> CASE WHEN _item {1} _1 THEN CAST(_at + 1 AS BIGINT) END), _at -> _at IS NOT NULL), 1), "
    "CASE WHEN _2 IS NOT NULL THEN CAST(0 AS BIGINT) END) END"
)
_BYTE = "concat(repeat('0', length(hex({0})) % 2), hex({0}))"

TEXTS: Mapping[str, Mapping[int, str]] = {
    "acos": {1: "CASE WHEN abs(_1) <= 1 THEN acos(_1) END"},
    "asin": {1: "CASE WHEN abs(_1) <= 1 THEN asin(_1) END"},
    # x % 1Y is what stands behind the point, in the type of x.
    "ceil": {1: "_1 - _1 % 1Y + CASE WHEN _1 % 1Y > 0Y THEN 1Y ELSE 0Y END"},
    "floor": {1: "_1 - _1 % 1Y - CASE WHEN _1 % 1Y < 0Y THEN 1Y ELSE 0Y END"},
    "crc32": {1: "crc32(CAST(CAST(_1 AS STRING) AS BINARY))"},
    "exp": {1: _FINITE.format("exp(_1)")},
    "log": {1: "ln(_1)", 2: "ln(_1) / ln(_2)"},
    "mod": {2: "CAST(_1 AS DOUBLE) % CAST(_2 AS DOUBLE)"},
    "pow": {2: _FINITE.format("pow(_1, _2)")},
    "sign": {1: "_1 - _1 + CASE WHEN _1 > 0Y THEN 1Y WHEN _1 < 0Y THEN -1Y ELSE 0Y END"},
    "sqrt": {1: "CASE WHEN _1 >= 0 THEN sqrt(_1) END"},
    "ascii": {
        1: "CASE WHEN _1 = '' THEN CAST(0 AS BIGINT) "
        "ELSE CAST(conv(left(hex(CAST(_1 AS BINARY)), 2), 16, 10) AS BIGINT) END"
    },
    "char_length": {1: "CAST(char_length(_1) AS BIGINT)"},
    "length": {1: "CAST(octet_length(_1) AS BIGINT)"},
    "position": {2: "CAST(locate(_1, _2) AS BIGINT)"},
    "find_in_set": {2: _SET.format("','"), 3: _SET.format("_3")},
    "like_in_set": {2: _MATCHING.format("','", "LIKE"), 3: _MATCHING.format("_3", "LIKE")},
    "regexp_in_set": {2: _MATCHING.format("','", "RLIKE"), 3: _MATCHING.format("_3", "RLIKE")},
    "to_base64": {1: "base64(CAST(_1 AS BINARY))"},
    "from_base64": {1: "CAST(try_to_binary(_1, 'base64') AS STRING)"},
    "mask_full": {2: "CASE WHEN _1 IS NOT NULL THEN _2 END"},
    "mask_partial": {
        4: "CASE WHEN _2 + _3 >= char_length(_1) THEN repeat(_4, char_length(_1)) ELSE "
        "concat(repeat(_4, _2), substring(_1, _2 + 1, char_length(_1) - _2 - _3), repeat(_4, _3)) END"
    },
    "mask_none": {1: "_1"},
    "weekday": {1: "CAST(weekday(_l1) AS BIGINT)"},
    "dayofweek": {1: "CAST(dayofweek(_l1) AS BIGINT)"},
    "weekofyear": {1: "CAST(weekofyear(_l1) AS BIGINT)"},
    "date": {1: "date_format(_l1, 'yyyy-MM-dd')"},
    "now": {0: "_now"},
    "today": {0: "to_utc_timestamp(date_trunc('DAY', from_utc_timestamp(_now, _zone)), _zone)"},
}
"""Functions by name and number of arguments: a text of Spark SQL."""

_ENCRYPTION = "md5(…), sha1(…) and sha2(…, 256) digest a text"
_GEOMETRY = "there is no type for geometry"
REFUSED: Mapping[str, str] = {
    "to_json": "a text may hold JSON, and get_json_object(text, '$.key') reads it",
    **dict.fromkeys(("aes_encrypt", "aes_decrypt", "sm4_encrypt", "sm4_decrypt"), _ENCRYPTION),
    **dict.fromkeys(("database", "current_user"), "SHOW DATABASES, and the lake has no users"),
    **dict.fromkeys(("client_version", "server_version", "server_status"), "lakestream --version"),
    **dict.fromkeys(("st_geomfromtext", "st_astext", "st_intersects", "st_equals"), _GEOMETRY),
    **dict.fromkeys(("st_touches", "st_covers", "st_contains", "st_containsproperly"), _GEOMETRY),
}
"""Functions of TDengine that are not built, and what to write instead."""

REFUSED_OPERATORS: Mapping[str, str] = {
    "contains": "there is no type for JSON; get_json_object(text, '$.key') IS NOT NULL",
}
"""Operators of TDengine that are not built, and what to write instead."""

CLOCK = frozenset({"now", "today"})
"""What the wall clock says: as a function or as a plain name."""

_INSTANTS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)


@dataclass(frozen=True)
class Meaning:
    """What functions depend on beside their arguments: the lake's time zone, and what NOW is, if anything."""

    zone: str = "UTC"
    now: exp.Expr | None = None

    def parts(self, arguments: list[exp.Expr]) -> dict[str, exp.Expr]:
        """Return what stands for the names in a text."""
        found: dict[str, exp.Expr] = {"_zone": exp.Literal.string(self.zone)}
        if self.now is not None:
            found["_now"] = self.now
        for number, argument in enumerate(arguments, 1):
            found[f"_{number}"] = argument
        return found

    def of(self, sql: str, *arguments: exp.Expr) -> exp.Expr:
        """Return a text with its arguments."""
        parts = self.parts(list(arguments))
        for number, argument in enumerate(arguments, 1):
            if re.search(rf"\b_[tlo]{number}\b", sql):
                parts[f"_t{number}"] = instant = self.instant(argument)
                parts[f"_l{number}"] = self._local(instant)
                parts[f"_o{number}"] = self._minutes(instant)
        return made(sql, parts)

    def instant(self, node: exp.Expr) -> exp.Expr:
        """Return a value as a time: numbers count milliseconds, texts without a zone are in the lake's."""
        millis = "timestamp_millis(CAST(_1 AS BIGINT))"
        if is_number(node):
            return made(millis, {"_1": node})
        in_zone = "CAST(_1 AS TIMESTAMP)"
        if self.zone != "UTC":
            says = quoted_text("[0-9]:[0-9:.]+ *([zZ]|[+-][0-9:]+|[A-Za-z_]+/[A-Za-z_]+|UTC)$")
            in_zone = (
                f"CASE WHEN CAST(_1 AS STRING) RLIKE {says} THEN CAST(_1 AS TIMESTAMP) "
                "ELSE to_utc_timestamp(CAST(_1 AS TIMESTAMP), _zone) END"
            )
        parts = self.parts([node])
        if isinstance(node, exp.Literal):
            return made(in_zone, parts)
        if isinstance(node, exp.Null) or (isinstance(node, exp.Cast) and node.is_type(*_INSTANTS)):
            return made("CAST(_1 AS TIMESTAMP)", parts)
        # Only Spark knows the types of columns; it settles this once, not for every row.
        text = f"WHEN typeof(_1) = 'string' THEN {in_zone} " if self.zone != "UTC" else ""
        return made(
            f"CASE WHEN typeof(_1) RLIKE {quoted_text(NUMBERS)} THEN {millis} {text}"
            "ELSE CAST(_1 AS TIMESTAMP) END",
            parts,
        )

    def _local(self, instant: exp.Expr) -> exp.Expr:
        if self.zone == "UTC":
            return instant
        return made("from_utc_timestamp(_1, _zone)", self.parts([instant]))

    def _minutes(self, instant: exp.Expr) -> exp.Expr:
        if self.zone == "UTC":
            return exp.Literal.number(0)
        moved = "(unix_micros(from_utc_timestamp(_1, _zone)) - unix_micros(_1)) div 60000000"
        return made(moved, self.parts([instant]))


NUMBERS = "^(tinyint|smallint|int|bigint|float|double|decimal.*)$"

COUNTING = frozenset(
    {"_tlocaltime", "_tprev_localtime", "_tnext_localtime", "_tidlestart", "_tidleend"}
    | {"_tgrpid", "_twduration", "_twrownum"}
)
"""The placeholders that are numbers."""

_NUMERIC = (exp.Div, exp.Mul, exp.IntDiv, exp.Mod, exp.Neg)


def is_number(node: exp.Expr) -> bool:
    """Return whether it is what can only be a number: literals, products, and the placeholders that count."""
    if isinstance(node, exp.Paren):
        return is_number(node.this)
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, (exp.Add, exp.Sub)):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return bool(node.args["to"].is_type(*exp.DataType.NUMERIC_TYPES))
    if isinstance(node, exp.Column):
        return node.name.lower() in COUNTING
    return isinstance(node, (*_NUMERIC, exp.Count))


def meaning_of(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """Return what a function of TDengine is in Spark SQL.

    Raises StatementError WRONG_ARGUMENTS (their number, or a constant that the function does not take),
    NON_DETERMINISTIC (the clock, where there is none), and NotSupportedError by the function's name.
    """
    if name in REFUSED:
        raise NotSupportedError(f"the function {name}()", hint=REFUSED[name])
    if name in REFUSED_OPERATORS:
        raise NotSupportedError(f"the operator {name.upper()}", hint=REFUSED_OPERATORS[name])
    if name in _BUILT:
        low, high, rule = _BUILT[name]
        _expect(name, arguments, low, high)
        return rule(name, arguments, meaning)
    texts = TEXTS[name]
    _expect(name, arguments, min(texts), max(texts))
    if "_now" in texts[len(arguments)] and meaning.now is None:
        raise depends_on_clock(name)
    return meaning.of(texts[len(arguments)], *arguments)


def depends_on_clock(name: str) -> StatementError:
    """Return the error for the clock where a stream's windows would depend on when a tick runs."""
    return StatementError(
        "NON_DETERMINISTIC",
        f"{name} would make windows and groups depend on when they are computed",
        hint="now and today() may stand in the query behind AS; there _tlocaltime is the wall clock too",
    )


def _expect(name: str, arguments: list[exp.Expr], low: int, high: int | None) -> None:
    if said := wrong_number(f"{name}()", len(arguments), low, high):
        raise StatementError("WRONG_ARGUMENTS", said)


def wrong_number(name: str, given: int, least: int, most: int | None) -> str:
    """Return the sentence on a function that takes another number of arguments, empty where it takes it.

    ``most`` None: any number from ``least`` on.

    >>> wrong_number("irate()", 2, 1, 1)
    'irate() takes 1 argument, not 2'
    """
    if least <= given <= (given if most is None else most):
        return ""
    wanted = f"{least} or more" if most is None else f"{least}" if least == most else f"{least} to {most}"
    return f"{name} takes {wanted} argument{'s' * (wanted != '1')}, not {given}"


def _bad(name: str, what: str, hint: str = "") -> StatementError:
    return StatementError("WRONG_ARGUMENTS", f"{name}() takes {what}", hint=hint)


def _integer(name: str, node: exp.Expr, what: str) -> int:
    """Return a whole number that stands there as such."""
    negative = isinstance(node, exp.Neg)
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal) or literal.is_string or not literal.name.isdigit():
        raise _bad(name, what)
    return -int(literal.name) if negative else int(literal.name)


def _text(name: str, node: exp.Expr, what: str) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise _bad(name, what)
    return node.name


# --- numbers -------------------------------------------------------------------------------------


def _extreme(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """greatest, least: NULL where any argument is; a text beside numbers makes all of them texts."""
    numbers = range(1, len(arguments) + 1)
    known = " AND ".join(f"_{n} IS NOT NULL" for n in numbers)
    # As elements of an array they get one type, which Spark's own greatest() does not give them.
    found = "array_max" if name == "greatest" else "array_min"
    return meaning.of(
        f"CASE WHEN {known} THEN {found}(array({', '.join(f'_{n}' for n in numbers)})) END", *arguments
    )


_DIGITS = "a whole number of digits as its second argument"


def _round(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """round(x[, digits]): half away from zero, in the type of x."""
    if len(arguments) == 1 or isinstance(arguments[1], exp.Null):
        return meaning.of("round(_1)" if len(arguments) == 1 else "nullif(_1, _1)", *arguments[:1])
    return meaning.of(f"round(_1, {_integer(name, arguments[1], _DIGITS)})", arguments[0])


def _truncate(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """truncate(x, digits): towards zero; with digits behind the point DOUBLE, else in the type of x."""
    if isinstance(arguments[1], exp.Null):
        return meaning.of("nullif(_1, _1)", arguments[0])
    digits = _integer(name, arguments[1], _DIGITS)
    if digits <= 0:
        if digits < -18:
            return meaning.of("_1 - _1", arguments[0])
        unit = {0: "1Y", -1: "10Y", -2: "100Y", -3: "1000S", -4: "10000S"}.get(digits, f"1{'0' * -digits}")
        return meaning.of(f"_1 - _1 % {unit}", arguments[0])
    x, rounded = "CAST(_1 AS DOUBLE)", f"round(CAST(_1 AS DOUBLE), {digits})"
    less = f"round({rounded} - sign({x}) * 1e-{digits}, {digits})"
    return meaning.of(f"CASE WHEN abs({rounded}) > abs({x}) THEN {less} ELSE {rounded} END", arguments[0])


# --- texts ---------------------------------------------------------------------------------------


def _char(_name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """char(n, …): the bytes of the numbers as a text, NULLs left out."""
    codes = [f"coalesce({_BYTE.format(f'CAST(_{n} AS BIGINT)')}, '')" for n, _ in enumerate(arguments, 1)]
    return meaning.of(f"CAST(unhex(concat({', '.join(codes)})) AS STRING)", *arguments)


def _concat_ws(_name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """concat_ws(separator, x, …): NULL where any argument is (Spark leaves it out)."""
    listed = ", ".join(f"_{n}" for n, _ in enumerate(arguments, 1))
    return meaning.of(f"CASE WHEN concat({listed}) IS NOT NULL THEN concat_ws({listed}) END", *arguments)


def _substring(_name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """substring(text, from[, length]): nothing from position 0, nor from before the text."""
    place = arguments[1]
    if isinstance(place, exp.Literal) and place.is_int and int(place.name) > 0:
        begin = "_2"
    else:
        begin = "CASE WHEN _2 = 0 OR _2 < -char_length(_1) THEN char_length(_1) + 1 ELSE _2 END"
    length = ", _3" if len(arguments) == 3 else ""
    return meaning.of(f"substring(_1, {begin}{length})", *arguments)


def _trim(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """trim([which] [text] FROM text): a text is taken off as a whole (Spark takes off its characters)."""
    which = name.partition(" ")[0]
    if len(arguments) == 1:
        spark = {"leading": "ltrim", "trailing": "rtrim"}.get(which, "trim")
        return meaning.of(f"{spark}(_1)", *arguments)
    sql = "_1"
    if which != "trailing":
        sql = f"regexp_replace({sql}, concat('^(?:\\\\Q', _2, '\\\\E)+'), '')"
    if which != "leading":
        sql = f"regexp_replace({sql}, concat('(?:\\\\Q', _2, '\\\\E)+$'), '')"
    return meaning.of(sql, *arguments)


def _separated(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """find_in_set and its like: a separator may not be empty or NULL."""
    if len(arguments) == 3 and (isinstance(arguments[2], exp.Null) or _is_empty(arguments[2])):
        raise _bad(name, "a separator that is not empty")
    return meaning.of(TEXTS[name][len(arguments)], *arguments)


def _is_empty(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and not node.name


def _sha2(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    length = _integer(name, arguments[1], "a length of 224, 256, 384 or 512")
    if length not in (224, 256, 384, 512):
        raise _bad(name, "a length of 224, 256, 384 or 512")
    return meaning.of(f"sha2(_1, {length})", arguments[0])


# --- times ---------------------------------------------------------------------------------------

_UNITS = {"u": 1, "a": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_DAYS = {"d": 86_400_000_000, "w": 604_800_000_000}


def _unit(name: str, node: exp.Expr) -> str:
    """Return the letter of a unit of time such as ``1s``."""
    text = node.expressions[0].name if isinstance(node, exp.Anonymous) and node.expressions else ""
    if text[:-1] != "1" or text[-1:] not in {"b", *_UNITS, *_DAYS}:
        raise _bad(name, "a unit of 1b, 1u, 1a, 1s, 1m, 1h, 1d or 1w")
    return text[-1]


def _timediff(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """timediff(a, b[, unit]): a less b in whole units, milliseconds where there is none."""
    default = len(arguments) == 2 or isinstance(arguments[2], exp.Null)
    unit = "a" if default else _unit(name, arguments[2])
    span = "(unix_micros(_t1) - unix_micros(_t2))"
    scaled = f"{span} * 1000" if unit == "b" else f"{span} div {(_UNITS | _DAYS)[unit]}"
    return meaning.of(scaled, *arguments[:2])


def _timetruncate(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """timetruncate(t, unit[, local]): days and weeks (of Thursdays) in the lake's zone unless local is 0."""
    unit = _unit(name, arguments[1])
    local = len(arguments) < 3 or _zero_or_one(name, arguments[2])
    if unit in "bu":
        return meaning.of("_t1", arguments[0])
    micros = (_UNITS | _DAYS)[unit]
    if unit in _UNITS or not local:
        return meaning.of(
            f"timestamp_micros(unix_micros(_t1) - pmod(unix_micros(_t1), {micros}))", arguments[0]
        )
    cut = f"timestamp_micros(unix_micros(_l1) - pmod(unix_micros(_l1), {micros}))"
    return meaning.of(f"to_utc_timestamp({cut}, _zone)", arguments[0])


def _zero_or_one(name: str, node: exp.Expr) -> bool:
    number = _integer(name, node, "0 or 1 as its last argument")
    if number not in (0, 1):
        raise _bad(name, "0 or 1 as its last argument")
    return bool(number)


def _to_unixtimestamp(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """to_unixtimestamp(text[, as_time]): milliseconds, or with 1 the time itself."""
    as_time = len(arguments) == 2 and _zero_or_one(name, arguments[1])
    return meaning.of("_t1" if as_time else "unix_millis(_t1)", arguments[0])


_OFFSET = re.compile(r"([zZ])|([+-])(\d\d?)(?::?(\d\d))?")


def _to_iso8601(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """to_iso8601(t[, zone]): with the lake's offset, or a zone as it is written."""
    form = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSS"
    if len(arguments) == 1:
        offset = "CASE WHEN _o1 < 0 THEN '-' ELSE '+' END, abs(_o1) div 60, abs(_o1) % 60"
        return meaning.of(
            f"concat(date_format(_l1, '{form}'), format_string('%s%02d%02d', {offset}))", arguments[0]
        )
    what = "a zone such as 'Z', '+08', '+0800' or '+08:00'"
    zone = _text(name, arguments[1], what)
    found = _OFFSET.fullmatch(zone)
    if found is None:
        raise _bad(name, what)
    minutes = 0 if found[1] else (int(found[3]) * 60 + int(found[4] or 0)) * (-1 if found[2] == "-" else 1)
    moved = f"timestamp_micros(unix_micros(_t1) + {minutes * 60_000_000})"
    return meaning.of(f"concat(date_format({moved}, '{form}'), {quoted_text(zone)})", arguments[0])


def _to_char(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    pattern = _text(name, arguments[1], "a format such as 'yyyy-mm-dd hh24:mi:ss'")
    return meaning.of(shown_time(pattern), arguments[0])


def _to_timestamp(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    if len(arguments) == 1:
        return meaning.instant(arguments[0])
    pattern = _text(name, arguments[1], "a format such as 'yyyy-mm-dd hh24:mi:ss'")
    return meaning.of(read_time(pattern), arguments[0])


def _week(name: str, arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """week(t[, mode]): by the day that weeks begin on, which is the first, and whether there is a 0th."""
    what = "a mode of 0 to 7"
    mode = _integer(name, arguments[1], what) if len(arguments) == 2 else 0
    if not 0 <= mode <= 7:
        raise _bad(name, what)
    by_monday, of_year, full = bool(mode & 1), bool(mode & 2), mode in (0, 2, 5, 7)

    def first(year: str) -> str:
        """Return the first day of a year's week 1: the last such weekday up to 7 January, or 4 January."""
        day = f"make_date({year}, 1, {7 if full else 4})"
        return f"date_sub({day}, {f'weekday({day})' if by_monday else f'dayofweek({day}) - 1'})"

    day, year = "CAST(_l1 AS DATE)", "year(_l1)"
    cases = f"WHEN {day} >= {first(year)} THEN datediff({day}, {first(year)}) div 7 + 1 "
    if of_year:
        cases = f"WHEN {day} >= {first(f'{year} + 1')} THEN 1 {cases}"
        cases += f"ELSE datediff({day}, {first(f'{year} - 1')}) div 7 + 1"
    else:
        cases += f"WHEN {year} IS NOT NULL THEN 0"
    return meaning.of(f"CAST(CASE {cases} END AS BIGINT)", arguments[0])


def _timezone(_name: str, _arguments: list[exp.Expr], meaning: Meaning) -> exp.Expr:
    """timezone(): the lake's zone, with its short name and offset now, as ``UTC (UTC, +0000)``."""
    from datetime import datetime

    zone = ZoneInfo(meaning.zone)
    seasons = [datetime(2025, month, 1, tzinfo=zone) for month in (1, 7)]
    texts = {day.utcoffset(): f"{meaning.zone} ({day:%Z}, {day:%z})" for day in seasons}
    if len(texts) == 1:
        return exp.Literal.string(next(iter(texts.values())))
    if meaning.now is None:
        raise depends_on_clock("timezone()")
    whens = "".join(
        f"WHEN {int(offset.total_seconds() // 60)} THEN {quoted_text(text)} "
        for offset, text in texts.items()
        if offset is not None
    )
    return meaning.of(f"CASE _o1 {whens}END", meaning.now)


if TYPE_CHECKING:
    _Rule = Callable[[str, list[exp.Expr], Meaning], exp.Expr]

_BUILT: Mapping[str, tuple[int, int | None, _Rule]] = {
    "greatest": (2, None, _extreme),
    "least": (2, None, _extreme),
    "round": (1, 2, _round),
    "truncate": (2, 2, _truncate),
    "char": (1, None, _char),
    "concat_ws": (2, None, _concat_ws),
    "substring": (2, 3, _substring),
    "substr": (2, 3, _substring),
    "trim": (1, 2, _trim),
    "leading trim": (1, 2, _trim),
    "trailing trim": (1, 2, _trim),
    "find_in_set": (2, 3, _separated),
    "like_in_set": (2, 3, _separated),
    "regexp_in_set": (2, 3, _separated),
    "sha2": (2, 2, _sha2),
    "timediff": (2, 3, _timediff),
    "timetruncate": (2, 3, _timetruncate),
    "to_unixtimestamp": (1, 2, _to_unixtimestamp),
    "to_iso8601": (1, 2, _to_iso8601),
    "to_char": (2, 2, _to_char),
    "to_timestamp": (1, 2, _to_timestamp),
    "week": (1, 2, _week),
    "timezone": (0, 0, _timezone),
}
"""Functions that a text alone does not tell: least and most arguments, and the rule."""

OWN = frozenset({*TEXTS, *_BUILT, *REFUSED})
"""Functions of one row that are written otherwise in Spark SQL, or refused."""
