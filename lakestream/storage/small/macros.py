"""DuckDB's macros for what Spark computes otherwise; they raise an error where they would not give its value.

Types are known when a query is planned, so that their checks cost nothing for a row.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

from lakestream.storage.small.functions.hashing import INSTANT, hashes
from lakestream.storage.small.functions.jsons import json_values
from lakestream.storage.small.functions.zones import instants, local_times

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

TYPES = "types: "
"""What errors begin with that follow from the types of a query, whatever the rows are."""
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_HASHED = (*_WHOLE[:4], "BOOLEAN", "VARCHAR", "DATE", "DOUBLE", INSTANT)
_SHOWN = (*_HASHED, "HUGEINT")


def _only(*kinds: str, beside: str = "") -> str:
    listed = ", ".join(f"'{kind}'" for kind in (*kinds, '"NULL"'))
    refused = f"ls_fail('{TYPES}a value that is none of {', '.join(kinds)}')"
    return f"CASE WHEN typeof(x) NOT IN ({listed}){beside} THEN {refused} ELSE x END"


def _rounded(function: str) -> str:
    return (
        f"CASE WHEN typeof(x) = 'DOUBLE' THEN CAST({function}(x) AS BIGINT) "
        f"ELSE CAST(({_only(*_WHOLE)}) AS BIGINT) END"
    )


_LONG = 10_000
_PART, _PARTS = 4_096, 2_500
_BEFORE = f"part * {_PART}"
_WORDS = (
    *("current_user", "session_user", "user", "current_role", "current_schema", "current_catalog"),
    *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
)
"""What DuckDB takes for a call of its own where no column has the name, also in quotes."""

_MACROS = {
    **{f'"{word}"()': f"ls_fail('{word} is not a column')" for word in _WORDS},
    # What makes sure of a kind, where the text does not tell it.
    "ls_whole(x)": _only(*_WHOLE),
    "ls_double(x)": _only("DOUBLE"),
    "ls_number(x)": _only(*_WHOLE, "DOUBLE", "FLOAT"),
    # Spark cuts the fraction off, and holds what is too large for its type by rules that are left to it.
    "ls_integral(x)": (
        "CASE WHEN typeof(x) = 'DOUBLE' THEN CAST(trunc(CAST(x AS DOUBLE)) AS HUGEINT) "
        f"ELSE CAST(({_only(*_WHOLE, 'BOOLEAN')}) AS HUGEINT) END"
    ),
    "ls_truth(x)": _only("BOOLEAN"),
    "ls_string(x)": _only("VARCHAR"),
    "ls_instant(x)": _only(INSTANT),
    "ls_date(x)": _only("DATE"),
    "ls_written(x)": _only("VARCHAR", "DATE"),
    "ls_no_text(x)": (
        f"CASE WHEN typeof(x) IN ('VARCHAR', 'BOOLEAN') THEN ls_fail('{TYPES}no number') ELSE x END"
    ),
    "ls_beside(x, y)": (
        "CASE WHEN (typeof(x) = 'VARCHAR') <> (typeof(y) = 'VARCHAR') "
        f"THEN ls_fail('{TYPES}a text among others') ELSE x END"
    ),
    "ls_no_day(x)": f"CASE WHEN typeof(x) = 'DATE' THEN ls_fail('{TYPES}days less days') ELSE x END",
    "ls_time(x)": _only("DATE", INSTANT),
    "ls_hashed(x)": _only(*_HASHED, beside=" AND NOT starts_with(typeof(x), 'DECIMAL(')"),
    "ls_alike(x, y)": (
        f"CASE WHEN typeof(x) NOT IN (typeof(y), '\"NULL\"') THEN ls_fail('{TYPES}another struct') ELSE x END"
    ),
    # Remainders and quotients by zero are NULL in Spark; remainders have the sign of the dividend in both.
    "ls_mod(a, b)": "a % CASE WHEN b = 0 THEN NULL ELSE b END",
    "ls_pmod(a, b)": "CASE WHEN b = 0 THEN NULL WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END",
    # Of whole numbers, by one above zero.
    "ls_cycle(a, b)": "(a % b + b) % b",
    "ls_div(a, b)": "CAST(a AS DOUBLE) / CASE WHEN b = 0 THEN NULL ELSE CAST(b AS DOUBLE) END",
    "ls_int_div(a, b)": "CAST(a AS BIGINT) // CAST(b AS BIGINT)",
    "ls_floor(x)": _rounded("floor"),
    "ls_ceil(x)": _rounded("ceil"),
    # Of numbers that large nothing is behind the point.
    "ls_rounded(x, y)": "CASE WHEN abs(x) < 1e16 THEN y ELSE x END",
    "ls_ascii(x)": "CASE WHEN strlen(x) <> length(x) THEN ls_fail('letters beyond ASCII') ELSE x END",
    "ls_bytes(x)": f"CAST(strlen({_only('VARCHAR')}) AS INTEGER)",
    "ls_formatted(x, form)": (
        "CASE WHEN year(x) BETWEEN 1583 AND 9999 OR x IS NULL THEN strftime(x, form) "
        "ELSE ls_fail('a year of another calendar') END"
    ),
    # Without a zone, days are those of the proleptic calendar, which Spark's are; its zone is UTC.
    "ls_naive(x)": "make_timestamp(epoch_us(x))",
    "ls_cut(unit, x)": "make_timestamptz(epoch_us(CAST(date_trunc(unit, ls_naive(x)) AS TIMESTAMP)))",
    "ls_day(x)": "CAST(ls_naive(x) AS DATE)",
    "ls_month(n)": "CAST(DATE '1970-01-01' + to_months(CAST(n AS INTEGER)) AS DATE)",
    "ls_days(x)": "x - DATE '1970-01-01'",
    "ls_of_millis(n)": "make_timestamptz(CAST(n AS BIGINT) * 1000)",
    "ls_millis(x)": "epoch_us(x) // 1000 - CASE WHEN epoch_us(x) % 1000 < 0 THEN 1 ELSE 0 END",
    "ls_from_utc(x, zone)": "make_timestamptz(ls_local_of(epoch_us(x), zone))",
    "ls_to_utc(x, zone)": "make_timestamptz(ls_instant_of(epoch_us(x), zone))",
    "ls_total(x)": (
        "CASE WHEN typeof(x) = 'HUGEINT' AND NOT x BETWEEN -9223372036854775808 AND 9223372036854775807 "
        "THEN ls_fail('a sum beyond BIGINT') ELSE x END"
    ),
    "ls_within(x, most)": (
        "CASE WHEN NOT x BETWEEN -most AND most THEN ls_fail('a decimal of too many digits') ELSE x END"
    ),
    # What lists take while rows go by counts for no limit of memory: long ones are for Spark. Where both ends
    # are given, DuckDB makes a list before it looks at the condition: that one is no longer either.
    # Spark's have the type of their ends.
    "ls_sequence(a, b)": (
        f"cast_to_type(CASE WHEN a IS NULL OR b IS NULL THEN NULL "
        f"WHEN abs(CAST(b AS HUGEINT) - CAST(a AS HUGEINT)) >= {_LONG} THEN ls_fail('a long list') "
        f"WHEN a <= b THEN generate_series(a, a + least(b - a, {_LONG})) "
        f"ELSE list_reverse(generate_series(b, b + least(a - b, {_LONG}))) END, [a, b])"
    ),
    # A list of numbers that becomes rows is made by its parts: see in_parts().
    "ls_stretches(a, b)": (
        f"CASE WHEN a IS NULL OR b IS NULL THEN NULL "
        f"WHEN abs(CAST(b AS HUGEINT) - CAST(a AS HUGEINT)) >= {_PARTS * _PART} THEN ls_fail('a long list') "
        f"ELSE generate_series(0, least(abs(b - a), {_PARTS * _PART}) // {_PART}) END"
    ),
    "ls_stretch(a, b, part)": (
        "cast_to_type(CASE WHEN a <= b "
        f"THEN generate_series(a + {_BEFORE}, least(b, a + {_BEFORE} + {_PART - 1})) "
        f"ELSE list_reverse(generate_series(greatest(b, a - {_BEFORE} - {_PART - 1}), a - {_BEFORE})) "
        "END, [a, b])"
    ),
    "ls_repeat(x, n)": (
        f"CASE WHEN n IS NULL THEN NULL WHEN n > {_LONG} THEN ls_fail('a long list') "
        f"ELSE list_transform(range(least(n, {_LONG})), lambda i: x) END"
    ),
    "ls_get(x, i)": (
        f"CASE WHEN NOT ends_with(typeof(x), '[]') THEN ls_fail('{TYPES}no list') "
        "WHEN i < 0 THEN NULL ELSE list_extract(x, i + 1) END"
    ),
    # NULL among the lists makes NULL of all (Spark); DuckDB leaves it out.
    "ls_flattened(x)": (
        "CASE WHEN list_contains(list_transform(x, lambda i: i IS NULL), true) THEN NULL ELSE flatten(x) END"
    ),
    # Both order structs by their fields; NULL is the least of a field in Spark and the greatest in DuckDB.
    "ls_ordered(x)": (
        "CASE WHEN typeof(x) LIKE 'STRUCT%' AND contains(CAST(x AS VARCHAR), 'NULL') "
        "THEN ls_fail('an order of structs with NULL') ELSE x END"
    ),
    "ls_sorted(x)": (
        "CASE WHEN contains(CAST(x AS VARCHAR), 'NULL') "
        "THEN ls_fail('an order of structs with NULL') ELSE list_sort(x, 'ASC', 'NULLS LAST') END"
    ),
    # Both write days as Spark does from the first year of their calendar on, to the last of four digits.
    "ls_time_text(x)": (
        r"CASE WHEN regexp_matches(x, '^(158[3-9]|159\d|1[6-9]\d\d|[2-9]\d\d\d)-') "
        r"THEN regexp_replace(x, '\+00$', '') WHEN x IS NOT NULL THEN ls_fail('another calendar') END"
    ),
    "ls_part(x)": _only(*_WHOLE, "BOOLEAN", "VARCHAR", beside=" AND NOT ends_with(typeof(x), '[]')"),
    "ls_text(x)": (
        f"CASE WHEN typeof(x) IN ('DATE', '{INSTANT}') THEN ls_time_text(CAST(x AS VARCHAR)) "
        f"ELSE CAST(({_only(*_WHOLE, 'BOOLEAN', 'VARCHAR', 'DATE', INSTANT)}) AS VARCHAR) END"
    ),
    "ls_hash(h, x)": "ls_hash_of(h, CAST(x AS VARCHAR), typeof(x))",
    "ls_json(x)": f"ls_json_of(CAST(({_only(*_SHOWN)}) AS VARCHAR), typeof(x))",
}


def _uses(head: str, body: str) -> int:
    """Return how often a macro names its arguments, at most: what each is planned."""
    arguments = head.partition("(")[2].rstrip(")").split(", ")
    return max(len(re.findall(rf"\b{name}\b", body)) for name in arguments)


USES = {head.partition("(")[0]: _uses(head, body) for head, body in _MACROS.items()}
"""How often each macro has an argument planned."""
_HEADS = {head.partition("(")[0]: head for head in _MACROS}
_NAMED = re.compile(rf"\bls_[a-z_]+(?=\()|\"(?:{'|'.join(_WORDS)})\"", re.IGNORECASE)


class Macros:
    """The macros of a database, each defined when a query first names it: all take longer than a query."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self.connection = connection
        self._defined: set[str] = set()
        self._lock = threading.Lock()
        _define_functions(connection)

    def define(self, sql: str) -> None:
        """Define the macros that a query names, and those that they name. For any thread."""
        with self._lock:
            self._define(sql)

    def _define(self, sql: str) -> None:
        for name in sorted({name.lower() for name in _NAMED.findall(sql)}):
            if name in self._defined:
                continue  # also by one before it, which names it
            if name in _HEADS:
                body = _MACROS[_HEADS[name]]
                self._define(body)
                self.connection.execute(f"CREATE MACRO {_HEADS[name]} AS ({body})")
            self._defined.add(name)


def _define_functions(connection: DuckDBPyConnection) -> None:
    """Define the functions that macros call."""
    from duckdb.func import FunctionNullHandling, PythonUDFType
    from duckdb.sqltypes import BIGINT, SQLNULL, VARCHAR

    # DuckDB evaluates the annotations of a function, for which Arrow would be imported now: these have none.
    functions: list[tuple[str, Callable[..., object], list[Any], DuckDBPyType]] = [
        ("ls_hash_of", lambda h, x, kind: hashes(h, x, kind), [BIGINT, VARCHAR, VARCHAR], BIGINT),  # noqa: PLW0108
        ("ls_json_of", lambda x, kind: json_values(x, kind), [VARCHAR, VARCHAR], VARCHAR),  # noqa: PLW0108
        ("ls_local_of", lambda x, zones: local_times(x, zones), [BIGINT, VARCHAR], BIGINT),  # noqa: PLW0108
        ("ls_instant_of", lambda x, zones: instants(x, zones), [BIGINT, VARCHAR], BIGINT),  # noqa: PLW0108
        ("ls_fail", lambda reasons: _fail(reasons), [VARCHAR], SQLNULL),  # noqa: PLW0108
    ]
    for name, function, takes, gives in functions:
        connection.create_function(
            name,
            function,
            takes,
            gives,
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )


def _fail(reasons: pa.ChunkedArray) -> None:
    """Raise an error for a reason: DuckDB's own ``error`` may not stand where rows are ordered or parted."""
    raise ValueError(reasons[0].as_py())
