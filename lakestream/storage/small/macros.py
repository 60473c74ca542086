"""DuckDB's macros for what Spark computes otherwise; they raise an error where they would not give its value.

Types are known when a query is planned, so that their checks cost nothing for a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

TYPES = "types: "
"""What errors begin with that follow from the types of a query, whatever the rows are."""
_WHOLE = "('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', '\"NULL\"')"
_NUMBER = "('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'DOUBLE', '\"NULL\"')"


def _only(kinds: str, result: str, what: str) -> str:
    refused = f"error('{TYPES}a cast to {what} of ' || typeof(x))"
    return f"CASE WHEN typeof(x) NOT IN {kinds} THEN {refused} ELSE {result} END"


_MACROS = {
    # Remainders and quotients by zero are NULL in Spark; remainders have the sign of the dividend in both.
    "ls_mod(a, b)": "a % CASE WHEN b = 0 THEN NULL ELSE b END",
    "ls_pmod(a, b)": ("CASE WHEN b = 0 THEN NULL WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END"),
    "ls_div(a, b)": (
        f"CASE WHEN typeof(a) NOT IN {_NUMBER} OR typeof(b) NOT IN {_NUMBER} "
        f"THEN error('{TYPES}a quotient of ' || typeof(a) || ' and ' || typeof(b)) "
        "WHEN b = 0 THEN NULL ELSE CAST(a AS DOUBLE) / CAST(b AS DOUBLE) END"
    ),
    "ls_int_div(a, b)": (
        f"CASE WHEN typeof(a) NOT IN {_WHOLE} OR typeof(b) NOT IN {_WHOLE} "
        f"THEN error('{TYPES}a whole quotient of ' || typeof(a) || ' and ' || typeof(b)) "
        "WHEN b = 0 THEN NULL ELSE CAST(a AS BIGINT) // CAST(b AS BIGINT) END"
    ),
    "ls_bigint(x)": _only(f"{_WHOLE[:-1]}, 'BOOLEAN')", "CAST(x AS BIGINT)", "BIGINT"),
    "ls_int(x)": _only(f"{_WHOLE[:-1]}, 'BOOLEAN')", "CAST(x AS INTEGER)", "INT"),
    "ls_smallint(x)": _only(f"{_WHOLE[:-1]}, 'BOOLEAN')", "CAST(x AS SMALLINT)", "SMALLINT"),
    "ls_tinyint(x)": _only(f"{_WHOLE[:-1]}, 'BOOLEAN')", "CAST(x AS TINYINT)", "TINYINT"),
    "ls_double(x)": _only(_NUMBER, "CAST(x AS DOUBLE)", "DOUBLE"),
    "ls_boolean(x)": _only("('BOOLEAN', '\"NULL\"')", "x", "BOOLEAN"),
    "ls_text(x)": _only(f"{_WHOLE[:-1]}, 'VARCHAR', 'BOOLEAN')", "CAST(x AS VARCHAR)", "STRING"),
    "ls_instant(x)": _only("('TIMESTAMP WITH TIME ZONE', '\"NULL\"')", "x", "TIMESTAMP"),
    "ls_date(x)": _only("('DATE', '\"NULL\"')", "x", "DATE"),
    "ls_string(x)": _only("('VARCHAR', '\"NULL\"')", "x", "a text"),
    "ls_floor(x)": _only(
        _NUMBER,
        f"CASE WHEN typeof(x) IN {_WHOLE} THEN CAST(x AS BIGINT) ELSE CAST(floor(x) AS BIGINT) END",
        "a whole number",
    ),
    "ls_ceil(x)": _only(
        _NUMBER,
        f"CASE WHEN typeof(x) IN {_WHOLE} THEN CAST(x AS BIGINT) ELSE CAST(ceil(x) AS BIGINT) END",
        "a whole number",
    ),
    # Without a zone, days are those of the proleptic calendar, which Spark's are; its zone is UTC.
    "ls_naive(x)": _only(
        "('DATE', 'TIMESTAMP WITH TIME ZONE')", "make_timestamp(epoch_us(x))", "a time without a zone"
    ),
    "ls_cut(unit, x)": "make_timestamptz(epoch_us(CAST(date_trunc(unit, ls_naive(x)) AS TIMESTAMP)))",
    "ls_millis(x)": "(epoch_us(x) - ls_pmod(epoch_us(x), 1000)) // 1000",
    "ls_total(x)": (
        "CASE WHEN typeof(x) = 'HUGEINT' AND NOT x BETWEEN -9223372036854775808 AND 9223372036854775807 "
        "THEN error('a sum beyond BIGINT') ELSE x END"
    ),
    "ls_sequence(a, b)": (
        "CASE WHEN a <= b THEN generate_series(a, b) ELSE list_reverse(generate_series(b, a)) END"
    ),
    "ls_repeat(x, n)": "list_transform(range(n), lambda i: x)",
    "ls_get(x, i)": "CASE WHEN i < 0 THEN NULL ELSE list_extract(x, i + 1) END",
    # Both order structs by their fields; NULL is the least of a field in Spark and the greatest in DuckDB.
    "ls_ordered(x)": (
        "CASE WHEN typeof(x) LIKE 'STRUCT%' AND contains(CAST(x AS VARCHAR), 'NULL') "
        "THEN error('an order of structs with NULL') ELSE x END"
    ),
    "ls_hash(h, x)": (
        "CASE WHEN typeof(x) NOT IN "
        "('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'BOOLEAN', 'VARCHAR', 'DATE', '\"NULL\"') "
        f"THEN error('{TYPES}a hash of ' || typeof(x)) WHEN x IS NULL THEN h "
        "ELSE ls_hash_of(h, CAST(x AS VARCHAR), typeof(x)) END"
    ),
}


def define_macros(connection: DuckDBPyConnection) -> None:
    """Define the macros, and the hash, on a connection."""
    from duckdb.func import FunctionNullHandling, PythonUDFType
    from duckdb.sqltypes import BIGINT, VARCHAR

    # DuckDB evaluates the annotations of what it is given, for which Arrow would have to be imported now.
    connection.create_function(
        "ls_hash_of",
        lambda seeds, texts, kinds: hashes(seeds, texts, kinds),  # noqa: PLW0108
        [BIGINT, VARCHAR, VARCHAR],
        BIGINT,
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )
    for head, body in _MACROS.items():
        connection.execute(f"CREATE MACRO {head} AS ({body})")


def hashes(seeds: pa.ChunkedArray, texts: pa.ChunkedArray, kinds: pa.ChunkedArray) -> pa.Array:
    """Return Spark's xxhash64 of values by their texts, from seeds; NULL where a text is NULL."""
    import pyarrow as pa

    known: dict[tuple[int, str, str], int] = {}
    found: list[int | None] = []
    for key in zip(seeds.to_pylist(), texts.to_pylist(), kinds.to_pylist(), strict=True):
        if key[1] is None:
            found.append(None)
            continue
        if key not in known:
            known[key] = _hash(*key)
        found.append(known[key])
    return pa.array(found, pa.int64())


def _hash(seed: int, text: str, kind: str) -> int:
    """Return the hash of one value: XXH64 of its bytes, as Spark lays them out."""
    import xxhash

    value = xxhash.xxh64_intdigest(_bytes(text, kind), seed % 2**64)
    return value - 2**64 if value >= 2**63 else value


def _bytes(text: str, kind: str) -> bytes:
    if kind == "VARCHAR":
        return text.encode()
    if kind == "BOOLEAN":
        return int(text == "true").to_bytes(4, "little")
    if kind == "DATE":
        from datetime import date

        return (date.fromisoformat(text) - date(1970, 1, 1)).days.to_bytes(4, "little", signed=True)
    return int(text).to_bytes(8 if kind == "BIGINT" else 4, "little", signed=True)
