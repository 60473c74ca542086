"""Forms of PostgreSQL's queries in the words of a lake; tests/contract/test_sql_clients.py has their rows."""

from __future__ import annotations

import pytest
from pg_mimic import PgError

from lakestream.language import parse_script
from lakestream.server.postgres.catalog.queries import parsed
from lakestream.server.postgres.forms import in_lakes_words, types_told
from lakestream.server.postgres.wording import filled

FORMS = [
    ("extract(epoch from ts)", "(UNIX_MICROS(CAST(ts AS TIMESTAMP)) / 1000000)"),
    (
        "extract(epoch from (b - a))",
        "((UNIX_MICROS(CAST(b AS TIMESTAMP)) / 1000000) - (UNIX_MICROS(CAST(a AS TIMESTAMP)) / 1000000))",
    ),
    (
        "date_part('epoch', ts - interval '1 hour')",
        "(UNIX_MICROS(CAST((ts - INTERVAL '1' HOUR) AS TIMESTAMP)) / 1000000)",
    ),
    ("extract(dow from ts)", "(DAYOFWEEK(ts) - 1)"),
    ("extract(isodow from ts)", "(WEEKDAY(ts) + 1)"),
    ("extract(milliseconds from ts)", "(DATE_PART('SECOND', ts) * 1000)"),
    ("interval '2 hrs 5 min'", "INTERVAL '2 hours 5 minutes'"),
    ("interval '1 day 02:03:04.5'", "INTERVAL '1 days 2 hours 3 minutes 4.5 seconds'"),
    ("'1 day 02:03:04.5'::interval", "INTERVAL '1 days 2 hours 3 minutes 4.5 seconds'"),
    ("interval '-02:03'", "INTERVAL '-2 hours -3 minutes'"),
    ("interval '-1 days +02:03:00'", "INTERVAL '-1 days 2 hours 3 minutes'"),
    ("interval '3 4:05:06'", "INTERVAL '3 days 4 hours 5 minutes 6 seconds'"),
    ("interval '1 day ago'", "INTERVAL '-1 days'"),
    ("interval '1-2'", "INTERVAL '1 years 2 months'"),
    ("interval '0 years 0 mons 1 days 2 hours 0 mins 4.5 secs'", "INTERVAL '1 days 2 hours 4.5 seconds'"),
    ("'1 mon'::interval", "INTERVAL '1 months'"),
    (
        "time_bucket('300.000s', ts)",
        "TIME_BUCKET(INTERVAL '300.000 seconds', ts, CAST('2000-01-03 00:00:00' AS TIMESTAMP))",
    ),
    ("date_bin('5 minutes', ts, b)", "TIME_BUCKET(INTERVAL '5 minutes', ts, b)"),
    ("ts AT TIME ZONE 'Europe/Berlin'", "FROM_UTC_TIMESTAMP(ts, 'Europe/Berlin')"),
    (
        "ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo'",
        "TO_UTC_TIMESTAMP((ts), 'Asia/Tokyo')",
    ),
    ("ts AT TIME ZONE 'utc'", "(ts)"),
    ("(timezone('UTC', now())) AT TIME ZONE 'Asia/Tokyo'", "TO_UTC_TIMESTAMP(((NOW())), 'Asia/Tokyo')"),
    ("ts AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE 'Z'", "(FROM_UTC_TIMESTAMP(ts, 'Asia/Tokyo'))"),
    (
        "ts AT TIME ZONE 'UTC' AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo'",
        "FROM_UTC_TIMESTAMP(((ts)), 'Asia/Tokyo')",
    ),
    (
        "timezone('Asia/Tokyo', timestamp '2025-01-01')",
        "TO_UTC_TIMESTAMP(CAST('2025-01-01' AS TIMESTAMP), 'Asia/Tokyo')",
    ),
    ("timestamp with time zone '2025-01-01Z'", "CAST('2025-01-01Z' AS TIMESTAMP)"),
    ("timestamp 'epoch'", "CAST('1970-01-01 00:00:00Z' AS TIMESTAMP)"),
    ("to_timestamp(n)", "TIMESTAMP_SECONDS(n)"),
    ("to_date(s, 'YYYY-MM-DD')", "CAST(TO_TIMESTAMP(s, 'YYYY-MM-DD') AS DATE)"),
    ("localtimestamp", "(NOW())"),
    ("x::numeric", "CAST(x AS DECIMAL(38, 10))"),
    ("x::numeric(5,2)", "CAST(x AS DECIMAL(5, 2))"),
    ("x::float", "CAST(x AS DOUBLE)"),
    ("'1'::int4", "CAST(1 AS INT)"),
    ("'-12'::bigint", "CAST((-12) AS BIGINT)"),
    ("'99999'::int2", "CAST('99999' AS SMALLINT)"),
    ("'1.50'::float8", "CAST(1.50e0 AS DOUBLE)"),
    ("'1e5'::float8", "CAST('1e5' AS DOUBLE)"),
    ("'t'::bool", "TRUE"),
    ("'False'::boolean", "FALSE"),
    ("'maybe'::bool", "CAST('maybe' AS BOOLEAN)"),
    ("'{a,b}'::text[]", "ARRAY(CAST('a' AS STRING), CAST('b' AS STRING))"),
    ("s::json->>'a'", "GET_JSON_OBJECT(s, '$.a')"),
    ("s = ANY(ARRAY['a'])", "s IN ('a')"),
    ("s <> ALL('{}'::text[])", "NOT FALSE"),
    ("s ~ 'a\\d'", "s RLIKE 'a\\\\d'"),
    ("s SIMILAR TO '(a|b)_%.'", "(s RLIKE '(?s)^(?:(a|b)..*\\\\.)$')"),
    ("s SIMILAR TO '[_%]+'", "(s RLIKE '(?s)^(?:[_%]+)$')"),
    ("s NOT SIMILAR TO 'a\\%'", "NOT (s RLIKE '(?s)^(?:a\\\\%)$')"),
    ("ARRAY[a, 2]", "ARRAY(a, 2)"),
    ("a::date - DATE '2025-01-01'", "DATEDIFF(CAST(a AS DATE), CAST('2025-01-01' AS DATE))"),
    ("current_date - (a::date)", "DATEDIFF(CURRENT_DATE, CAST(a AS DATE))"),
    ("a::date - interval '1 day'", "CAST(a AS DATE) - INTERVAL '1' DAY"),
    ("s !~* 'A'", "NOT (s RLIKE CONCAT('(?i)', 'A'))"),
]


@pytest.mark.parametrize(("said", "meant"), FORMS)
def test_a_form_of_postgresqls_is_one_of_a_lakes(said: str, meant: str) -> None:
    sql = in_lakes_words(f'SELECT {said} AS x FROM "main"."main"."t"', "main")
    assert sql == f"SELECT {meant} AS x FROM `main`.`t`"
    assert parse_script(sql)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "SELECT t FROM generate_series(1, 3) AS t",
            "SELECT t FROM (SELECT EXPLODE(SEQUENCE(1, 3)) AS `t`) AS t",
        ),
        (
            """INSERT INTO "main"."t" ("a", b) VALUES ('x'::VARCHAR, 7::BIGINT), (NULL::TEXT, '-1'::INT)""",
            "INSERT INTO `main`.`t` (`a`, b) VALUES ('x', 7), (NULL, '-1')",
        ),
        (
            "UPDATE t SET v = '2'::INT WHERE t.ts >= '2025-01-01Z'::TIMESTAMP WITH TIME ZONE",
            "UPDATE t SET v = '2' WHERE t.ts >= '2025-01-01Z'",
        ),
        (
            "DELETE FROM t WHERE ts < '2025-01-01'::timestamptz",
            "DELETE FROM t WHERE ts < '2025-01-01'",
        ),
        (
            "SELECT u.n FROM generate_series(a, b, '1 hour') AS u(n)",
            "SELECT u.n FROM (SELECT EXPLODE(SEQUENCE(a, b, INTERVAL '1' HOUR)) AS `n`) AS u",
        ),
        (
            "SELECT DISTINCT ON (g) g, v FROM t ORDER BY v DESC",
            (
                "SELECT g, v FROM (SELECT g AS g, v AS v, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) "
                "AS _row_number FROM t) AS _t WHERE _row_number = 1"
            ),
        ),
        (
            "SELECT count(*)::int, a::text FROM t",
            "SELECT CAST(COUNT(*) AS INT) AS `count`, CAST(a AS STRING) AS `a` FROM t",
        ),
        (
            "SELECT floor(extract(epoch from a)) FROM t",
            "SELECT FLOOR((UNIX_MICROS(CAST(a AS TIMESTAMP)) / 1000000)) AS `floor` FROM t",
        ),
    ],
)
def test_a_query_with_such_forms_is_a_lakes(said: str, meant: str) -> None:
    assert in_lakes_words(said, "main") == meant
    assert parse_script(meant)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT \"a\", count(*) FROM t WHERE b > now() - INTERVAL '5 minutes' GROUP BY 1",
        "SELECT extract(hour from ts), x[0], first(v) FROM t",
        "SELECT _wstart, count(*) FROM t INTERVAL(1h)",
        "INSERT INTO t VALUES (1)",
        "SELECT FROM WHERE ::",
    ],
)
def test_other_statements_stay_as_they_are(sql: str) -> None:
    assert in_lakes_words(sql, "main") is None


TYPE_NUMBERS = {
    "boolean": 16,
    "bigint": 20,
    "smallint": 21,
    "int": 23,
    "real": 700,
    "float8": 701,
    "date": 1082,
    "timestamp": 1114,
    "timestamptz": 1184,
    "numeric": 1700,
    "numeric(10, 2)": 1700,
    "text": 25,
}


@pytest.mark.parametrize("kind", TYPE_NUMBERS)
def test_a_cast_tells_the_type_of_a_parameter(kind: str) -> None:
    for form in ("$1::{}", "CAST($1 AS {})", "coalesce($1::{}, NULL)"):
        told = types_told(f"SELECT {form.format(kind)} AS x, $2 AS y FROM power LIMIT $3")
        assert (told.get(1, 25), told.get(2), told[3]) == (TYPE_NUMBERS[kind], None, 20)


@pytest.mark.parametrize("kind", ["int", "bigint", "numeric"])
@pytest.mark.parametrize(("given", "meant"), [("0", "0"), ("5", "5"), ("NULL", None)])
def test_a_limit_is_the_number_within_its_cast(kind: str, given: str, meant: str | None) -> None:
    for form in ("{}::{}", "CAST({} AS {})", "({}::{})"):
        number = form.format(given, kind)
        said = in_lakes_words(f"SELECT n FROM t LIMIT {number} OFFSET {number}", "main")
        assert said == f"SELECT n FROM t LIMIT {meant or 2**31 - 1} OFFSET {meant or 0}"


@pytest.mark.parametrize(
    ("condition", "kind", "given", "meant"),
    [
        ("note = ANY($1)", 1009, ["it's", "b\\"], "note IN ('it''s', 'b\\\\')"),
        ("note = ANY($1::text[])", 1009, ["a", None], "note IN ('a', NULL)"),
        ("n = ANY($1::bigint[])", 1016, ["1", "-2"], "n IN (1, (-2))"),
        ("n = ANY($1)", 1007, [], "FALSE"),
        ("w <> ALL($1::float8[])", 1022, ["1.5"], "NOT w IN (CAST(1.5 AS DOUBLE))"),
        ("n = ANY($1::int[])", 1007, None, "n = NULL"),
    ],
)
def test_an_array_that_is_given_is_a_list(
    condition: str, kind: int, given: list[str | None] | None, meant: str
) -> None:
    said = in_lakes_words(filled(f"SELECT n FROM t WHERE {condition}", [given], [kind]), "main")
    assert said == f"SELECT n FROM t WHERE {meant}"
    sql = "SELECT n FROM t WHERE note = ANY($1) AND n = ANY($2::bigint[]) AND n = $3"
    assert types_told(sql, {}) == {1: 1009, 2: 1016}


COLUMNS = {
    ("", "t"): (
        ("ts", "timestamp"),
        ("n", "int"),
        ("price", "decimal(10,2)"),
        ("raw", "binary"),
        ("d", "date"),
    ),
    ("other", "t"): (("n", "bigint"),),
}
WITH_COLUMNS = {
    "SELECT n FROM t WHERE n = $1 AND price IN ($2,$3)": {1: 23, 2: 1700, 3: 1700},
    "SELECT n FROM t AS a WHERE a.ts BETWEEN $1 AND $2 OR $3 < d": {1: 1184, 2: 1184, 3: 1082},
    "SELECT n FROM t WHERE n = ANY($1) AND NOT d <> ALL($2) AND x = ANY($3)": {1: 1007, 2: 1182, 3: 1009},
    "SELECT n FROM other.t WHERE n > $1": {1: 20},
    "SELECT n + $1, ts - $2, coalesce(price, $3) FROM t": {1: 23, 2: 1186, 3: 1700},
    "INSERT INTO t (ts, raw) VALUES ($1,$2), ($3, $4)": {1: 1184, 2: 17, 3: 1184, 4: 17},
    "INSERT INTO t VALUES ($1, $2)": {1: 1184, 2: 23},
    "UPDATE t SET price = $1 WHERE ts = $2": {1: 1700, 2: 1184},
    "DELETE FROM t WHERE n >= -$1": {1: 23},
    "SELECT $1, f($2) FROM nothing WHERE n = $3": {},
}


@pytest.mark.parametrize("sql", WITH_COLUMNS)
def test_columns_tell_the_types_of_parameters(sql: str) -> None:
    assert types_told(sql, COLUMNS) == WITH_COLUMNS[sql]


def test_clients_ask_for_types_by_their_numbers() -> None:
    assert types_told("SELECT oid FROM pg_type WHERE oid = any($1::oid[])") == {1: 1028}
    assert parsed("SELECT oid FROM pg_type WHERE oid = any(ARRAY[20]::oid[])") is not None


@pytest.mark.parametrize("text", ["1 day 2", "soon", "", "1 fortnight", "P1DT2H", "1:2:3:4"])
@pytest.mark.parametrize("form", ["interval '{}'", "'{}'::interval"])
def test_what_is_no_interval_is_refused(form: str, text: str) -> None:
    with pytest.raises(PgError, match="is no interval"):
        in_lakes_words(f"SELECT {form.format(text)}", "main")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("1 day, 2:00:00", "1 days 2 hours"),  # of psycopg
        ("1 day 02:00:00", "1 days 2 hours"),  # of asyncpg
        ("-1 day, 23:00:00", "-1 days 23 hours"),
        ("0:00:00.500000", "0.500000 seconds"),
        ("0 years 0 mons 0 days 1 hours 0 mins 0.0 secs", "1 hours"),  # of JDBC
    ],
)
def test_a_length_that_is_given_is_a_lakes(given: str, meant: str) -> None:
    asked = filled("SELECT ts + $1 FROM t", [given], [1186])
    assert in_lakes_words(asked, "main") == f"SELECT ts + INTERVAL '{meant}' AS `?column?` FROM t"
