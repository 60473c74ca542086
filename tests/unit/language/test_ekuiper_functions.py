"""eKuiper's functions by figures of its manual and its engine; each is built, Spark's own, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.errors import LakestreamError
from lakestream.language import parse_expression, parse_statement
from lakestream.language.common.functions import Meaning
from lakestream.language.ekuiper.analytic import FORMS
from lakestream.language.ekuiper.functions import BUILT, REFUSED, SAME, translated
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.model import Fragment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMES = (
    "avg count max min sum collect merge_agg deduplicate stddev stddevs var vars percentile percentile_disc "
    "last_value median last_agg_hit_count last_agg_hit_time concat endswith format_time indexof length lower "
    "lpad ltrim numbytes regexp_matches regexp_replace regexp_substring rpad rtrim substring startswith "
    "split_value trim upper format abs acos asin atan atan2 bitand bitor bitxor bitnot ceil cos cosh exp ln "
    "log mod power rand round sign sin sinh sqrt tan tanh now current_timestamp local_time local_timestamp "
    "cur_date current_date cur_time current_time date_calc date_diff day_name day_of_month day day_of_week "
    "day_of_year from_days from_unix_time hour last_day microsecond minute month month_name second cast "
    "encode decode compress decompress trunc chr cardinality array_position element_at array_contains "
    "array_create array_remove array_last_position array_contains_any array_intersect array_union array_max "
    "array_avg array_min array_except repeat sequence array_cardinality array_flatten array_distinct "
    "array_map array_join array_shuffle array_concat array_sort kvpair_array_to_obj isnull coalesce newuuid "
    "tstamp event_time rule_id mqtt meta last_hit_count last_hit_time window_start window_end "
    "get_keyed_state delay lag latest changed_col changed_cols had_changed acc_sum acc_max acc_min acc_count "
    "acc_avg keys values object zip items object_construct object_concat erase md5 sha1 sha256 sha384 sha512 "
    "to_json parse_json json_path_exists json_path_query json_path_query_first unnest row_number"
)
MANUAL = frozenset(_NAMES.split())
OF_STATEMENT = frozenset({"event_time", "rule_id", "window_start", "window_end"})
NON_DETERMINISTIC = frozenset({"now", "current_timestamp", "current_date", "current_time", "rand"})


def test_each_function_of_the_manual_is_built_or_refused_by_name() -> None:
    kinds = [BUILT, SAME, REFUSED, OF_STATEMENT, NON_DETERMINISTIC, FORMS.keys()]
    assert {name: sum(name in kind for kind in kinds) for name in MANUAL} == dict.fromkeys(MANUAL, 1)


@pytest.mark.parametrize("name", sorted(REFUSED | NON_DETERMINISTIC))
def test_what_is_refused_is_refused_at_its_name(name: str) -> None:
    for select in (
        f"SELECT {name}(x) AS y FROM t GROUP BY COUNTWINDOW(2)",
        f"SELECT x FROM t GROUP BY COUNTWINDOW(2) FILTER (WHERE {name}(x) > 1)",
    ):
        with pytest.raises(LakestreamError) as refused:
            parse_statement(f"CREATE STREAM s WITH (TIMESTAMP='ts') INTO o AS {select}")
        assert refused.value.code in ("NOT_SUPPORTED", "NON_DETERMINISTIC", "SYNTAX")
        assert refused.value.place is not None


FIGURES = [
    ("concat('a', NULL, 'b')", "ab"),
    ("endswith('hello', 'lo')", True),
    ("endswith(NULL, 'lo')", False),
    ("startswith('hello', 'he')", True),
    ("indexof('hello', 'l')", 2),
    ("indexof('hello', 'x')", -1),
    ("indexof(NULL, 'x')", -1),
    ("length('häuser')", 6),
    ("length(NULL)", 0),
    ("numbytes('häuser')", 7),
    ("lower('AbC')", "abc"),
    ("upper('AbC')", "ABC"),
    ("lpad('ab', 2)", "  ab"),
    ("rpad('ab', 2)", "ab  "),
    ("ltrim('\t a b ')", "a b "),
    ("rtrim(' a b \t')", " a b"),
    ("trim('\t a b ')", "a b"),
    ("regexp_matches('seafood', 'foo.*')", True),
    ("regexp_matches(NULL, 'foo.*')", False),
    ("regexp_replace('seafood', 'o+', '0')", "seaf0d"),
    ("regexp_substring('seafood', 'foo.')", "food"),
    ("regexp_substr('seafood', 'x')", ""),
    ("substring('hello', 1)", "ello"),
    ("substring('hello', 1, 3)", "el"),
    ("substring('hello', 9)", ""),
    ("split_value('/test/device001/message', '/', 0)", ""),
    ("split_value('/test/device001/message', '/', 3)", "message"),
    ("split_value('a.b', '.', 1)", "b"),
    ("abs(-3)", 3),
    ("acos(2)", None),
    ("sqrt(-1)", None),
    ("sqrt(4)", 2.0),
    ("bitand(6, 3)", 2),
    ("bitor(6, 3)", 7),
    ("bitxor(6, 3)", 5),
    ("bitnot(6)", -7),
    ("ceil(1.2)", 2),
    ("log(100)", 2.0),
    ("log(2, 8)", 3.0),
    ("log(1, 8)", None),
    ("log(-1)", None),
    ("mod(-5, 3)", -2),
    ("mod(5, 0)", None),
    ("power(2, 10)", 1024.0),
    ("round(2.5)", 3),
    ("round(-2.5)", -3),
    ("sign(-7)", -1),
    ("format_time(cast(1136214245123, 'datetime'), 'YYYY-MM-dd T HH:mm:ss')", "2006-01-02 T 15:04:05"),
    ("format_time(1136214245123, 'YYYY/MM/dd HH:mm:ssSSS XXX')", "2006/01/02 15:04:05.123 +00:00"),
    ("format_time(1136214245123, 'YY M d h a EEE MMM SSS')", "06 1 2 3 PM Mon Jan .123"),
    ("format_time(1136214245123, 'HH:mm:ss.SSS')", "15:04:05.123"),
    ("date_calc(1546300800000, '1h30m10s')", "2019-01-01 01:30:10"),
    ("date_calc(1546300800000, '-1h30m')", "2018-12-31 22:30:00"),
    ("day_name(1546300800000)", "Tuesday"),
    ("month_name(1546300800000)", "January"),
    ("day_of_month(1546300800000)", 1),
    ("day(1546300800000)", 1),
    ("day_of_year(1546300800000)", 1),
    ("hour(1136214245123)", 15),
    ("minute(1136214245123)", 4),
    ("second(1136214245123)", 5),
    ("month(1136214245123)", 1),
    ("microsecond(1136214245123)", 123000),
    ("last_day(1136214245123)", "2006-01-31"),
    ("from_unix_time(1136214245)", "2006-01-02 15:04:05"),
    ("from_unix_time(0)", None),
    ("to_seconds(1136214245123)", 1136214245),
    ("cast('12', 'bigint')", 12),
    ("cast(2.7, 'bigint')", 2),
    ("cast(3, 'float')", 3.0),
    ("cast(3, 'string')", "3"),
    ("cast('true', 'boolean')", True),
    ("encode('hello', 'base64')", "aGVsbG8="),
    ("decode('aGVsbG8=', 'base64')", bytearray(b"hello")),
    ("chr(65)", "A"),
    ("md5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("sha1('a')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
    ("sha256('a')", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
    ("crc32('a')", "e8b7be43"),
    ("cardinality(array_create(1, 2, 3))", 3),
    ("array_cardinality(array_create(1))", 1),
    ("array_position(array_create(3, 1), 1)", 1),
    ("array_position(array_create(3, 1), 7)", -1),
    ("array_last_position(array_create(1, 3, 1), 1)", 2),
    ("array_last_position(array_create(1, 3, 1), 7)", -1),
    ("element_at(array_create(5, 6, 7), 1)", 6),
    ("element_at(array_create(5, 6, 7), -1)", 7),
    ("array_contains(array_create(5, 6), 6)", True),
    ("array_contains_any(array_create(5, 6), array_create(6))", True),
    ("array_remove(array_create(1, 2, 1), 1)", [2]),
    ("array_intersect(array_create(1, 2), array_create(2, 3))", [2]),
    ("array_union(array_create(1, 2), array_create(2, 3))", [1, 2, 3]),
    ("array_except(array_create(1, 2), array_create(2, 3))", [1]),
    ("array_max(array_create(1, 2))", 2),
    ("array_min(array_create(1, 2))", 1),
    ("array_avg(array_create(1, 2))", 1.5),
    ("array_flatten(array_create(array_create(1, 4), array_create(2, 3)))", [1, 4, 2, 3]),
    ("array_distinct(array_create(1, 1))", [1]),
    ("array_join(array_create(1, 2, 3), ',')", "1,2,3"),
    ("array_concat(array_create(1), array_create(2))", [1, 2]),
    ("array_sort(array_create(3, 2))", [2, 3]),
    ("repeat('a', 3)", ["a", "a", "a"]),
    ("sequence(1, 5, 2)", [1, 3, 5]),
    ("keys(object(array_create('a'), array_create(1)))", ["a"]),
    ("isnull(NULL)", True),
    ("coalesce(NULL, 2)", 2),
]


@pytest.mark.spark
def test_functions_over_one_event_have_ekuipers_figures(spark: SparkSession) -> None:
    listed = [
        in_spark(parse_expression(meant), Meaning("UTC"), meant).sql("spark")
        for meant in (translated(Fragment(call, spark=True), None) for call, _ in FIGURES)
    ]
    found = spark.sql(f"SELECT {', '.join(f'{sql} AS c{n}' for n, sql in enumerate(listed))}").head()
    assert found is not None
    values = {call: value for (call, _), value in zip(FIGURES, found, strict=True)}
    assert values == dict(FIGURES)


@pytest.mark.parametrize(
    ("call", "zone", "sql"),
    [
        ("hour(ts)", "+08:00", "hour(from_utc_timestamp(CAST(ts AS TIMESTAMP), '+08:00'))"),
        ("hour(ts)", None, "hour(CAST(ts AS TIMESTAMP))"),
    ],
)
def test_times_are_those_of_the_streams_zone(call: str, zone: str | None, sql: str) -> None:
    assert translated(Fragment(call), zone).sql == sql


@pytest.mark.parametrize(
    "call",
    [
        "lpad(x)",
        "round(x, 1)",
        "last_value(x)",
        "last_value(x, y)",
        "substring(x, -1)",
        "cast(x, 'date')",
        "format_time(x, y)",
        "format_time(x, 'Y')",
        "encode(x, 'hex')",
        "date_calc(x, '1d')",
        "collect(*)",
    ],
)
def test_wrong_arguments_are_refused_at_the_call(call: str) -> None:
    with pytest.raises(LakestreamError) as refused:
        translated(Fragment(f"1 + {call}"), None)
    assert refused.value.place is not None
    assert refused.value.place.column >= 5
