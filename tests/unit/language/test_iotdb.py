"""The IoTDB dialect: paths and patterns, durations and times, expressions, and what is refused where."""

from __future__ import annotations

import re
from pathlib import Path as File
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lakestream.errors import StatementError
from lakestream.language import parse_script, parse_statement
from lakestream.language.iotdb.expressions import read_expression
from lakestream.language.iotdb.literals import device_path, moment_of, span_of, written_device
from lakestream.language.iotdb.paths import Path, filled_device, filled_measurement, name_of, node_of
from lakestream.language.iotdb.values import CreateContinuousQuery, QueryTree, Select
from lakestream.language.model import Fragment, Now

DATA = File(__file__).parent / "data"
REFUSED = yaml.safe_load((DATA / "iotdb_refused.yaml").read_text(encoding="utf-8"))
ACCEPTED = yaml.safe_load((DATA / "iotdb_accepted.yaml").read_text(encoding="utf-8"))


def path(text: str) -> Path:
    return Path(tuple(text.split(".")))


def select_of(text: str) -> Select:
    statement = parse_statement(text, dialect="iotdb")
    assert isinstance(statement, QueryTree)
    return statement.select


def query_of(text: str) -> CreateContinuousQuery:
    statement = parse_statement(text, dialect="iotdb")
    assert isinstance(statement, CreateContinuousQuery)
    return statement


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert len(parse_script(text, dialect="iotdb")) == 1


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["sql"][:70])
def test_refused(case: dict[str, Any]) -> None:
    with pytest.raises(StatementError) as caught:
        parse_script(case["sql"], dialect="iotdb")
    error = caught.value
    assert error.code == case["code"], error.render()
    assert re.search(case["match"], error.message), error.render()
    assert error.place is not None
    assert f"{error.place.line}:{error.place.column}" == case["at"], error.render()


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "series", "matches"),
    [
        ("root.ln.*.t", "root.ln.d1.t", True),
        ("root.ln.*.t", "root.ln.a.d1.t", False),
        ("root.ln.**.t", "root.ln.a.d1.t", True),
        ("root.ln.**.t", "root.ln.t", False),
        ("root.**", "root.ln.d1.t", True),
        ("root.**.t", "root.a.b.c.t", True),
        ("root.ln.wf*.t", "root.ln.wf01.t", True),
        ("root.ln.wf*.t", "root.ln.xf01.t", False),
        ("root.ln.d1.t", "root.ln.d1.tt", False),
        ("root.ln.d.1", "root.ln.d01", False),
    ],
)
def test_patterns(pattern: str, series: str, matches: bool) -> None:
    assert path(pattern).matches(path(series)) is matches


@pytest.mark.parametrize(
    ("pattern", "database", "reaches"),
    [
        ("root", "root.ln", True),
        ("root.ln", "root.ln", True),
        ("root.ln.d1.t", "root.ln", True),
        ("root.*.t", "root.ln", True),
        ("root.l*", "root.ln.a", True),
        ("root.**", "root.ln.a", True),
        ("root.**.t", "root.ln.a", True),
        ("root.sg", "root.ln", False),
        ("root.ln.b.*", "root.ln.a", False),
    ],
)
def test_which_databases_a_pattern_reaches(pattern: str, database: str, reaches: bool) -> None:
    assert path(pattern).reaches(path(database)) is reaches


@pytest.mark.parametrize(
    ("text", "is_device"),
    [
        ("root.ln.d1", True),
        ("root.ln.`7`", True),
        ("root.ln.`a.b`", True),
        ("root.ln.`über`", True),
        ("root.ln.车间1", True),
        ("root.ln.`车间1`", False),
        ("root.ln.7", False),
        ("root.ln.`d1`", False),
        ("root.ln.a b", False),
        ("root.ln.*", False),
        ("root.ln.${1}", False),
        ("root.ln.", False),
        ("root", False),
        ("", False),
        ("-- root", False),
    ],
)
def test_which_texts_are_devices(text: str, is_device: bool) -> None:
    found = written_device(text)
    assert (found is not None and str(found) == text) is is_device


def test_a_quoted_star_is_a_star() -> None:
    quoted = device_path("root.`a*`.d")
    assert not quoted.is_pattern
    assert quoted.matches(Path(("root", "`a*`", "d")))
    assert not quoted.matches(Path(("root", "`ab`", "d")))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_quoted_name_is_read_back(name: str) -> None:
    assert name_of(node_of(name)) == name


@pytest.mark.parametrize(
    ("target", "source", "filled"),
    [
        ("root.bk.::", "root.sg.a.d1", "root.bk.a.d1"),
        ("::", "root.sg.a.d1", "root.sg.a.d1"),
        ("root.agg_${1}.::", "root.sg.d1", "root.agg_sg.d1"),
        ("root.x.${3}_${2}", "root.sg.a.d1", "root.x.d1_a"),
        ("root.x.${9}", "root.sg.a.d1", None),
        ("root.x.y_${2}", "root.sg.`d 1`", "root.x.`y_d 1`"),
        ("root.x.y_${2}", "root.sg.`7`", "root.x.y_7"),
        ("root.x.${2}", "root.sg.`7`", "root.x.`7`"),
    ],
)
def test_placeholders_of_a_device(target: str, source: str, filled: str | None) -> None:
    found = filled_device(path(target), path(source))
    assert (None if found is None else str(found)) == filled


def test_placeholders_of_a_measurement() -> None:
    assert filled_measurement("::", path("root.sg.d.s1")) == "s1"
    assert filled_measurement("${2}_${3}", path("root.sg.d.s1")) == "d_s1"
    assert filled_measurement("fixed", path("root.sg.d.s1")) == "fixed"


# --- durations and times --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "months", "micros"),
    [
        ("1h30m", 0, 5_400_000_000),
        ("10ms", 0, 10_000),
        ("2000ns", 0, 2),
        ("1y2mo", 14, 0),
        ("1W", 0, 604_800_000_000),
    ],
)
def test_durations(text: str, months: int, micros: int) -> None:
    found = span_of(text)
    assert found is not None
    assert (found.months, found.micros) == (months, micros)


@pytest.mark.parametrize("text", ["1", "1x", "1.5h", "1ns", "h", "1h 30m", "2000y", "1h30"])
def test_what_is_no_duration(text: str) -> None:
    assert span_of(text) is None


def test_times_stand_with_or_without_quotes() -> None:
    assert moment_of("2025/1/2") == ("2025-01-02T00:00:00", 8)
    assert moment_of("2025-01-02 03:04:05.006+08:00") == ("2025-01-02T03:04:05.006+08:00", 29)
    assert moment_of("tomorrow") is None
    body = "BEGIN SELECT count(s) INTO root.o.d(n) FROM root.d GROUP BY(1s) END".replace(
        "root.d ", "root.sg.d "
    )
    for written in ("2025-01-02T00:00:00.000+08:00", "'2025-01-02T00:00:00.000+08:00'"):
        assert (
            query_of(f"CREATE CQ c RESAMPLE BOUNDARY {written} {body}").boundary
            == "2025-01-02T00:00:00.000+08:00"
        )
    assert query_of(f"CREATE CQ c RESAMPLE BOUNDARY 12 {body}").boundary == 12
    assert query_of(f"CREATE CQ c RESAMPLE BOUNDARY now() - 1h {body}").boundary == Now(-3_600_000_000)


# --- expressions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown", "paths"),
    [
        ("s1", "s1", ["s1"]),
        ("avg( s1 )+1", "avg(s1) + 1", ["s1"]),
        ("s1*2", "s1 * 2", ["s1"]),
        ("s1 * s2", "s1 * s2", ["s1", "s2"]),
        ("*", "*", ["*"]),
        ("wf*.t", "wf*.t", ["wf*.t"]),
        ("d1.**", "d1.**", ["d1.**"]),
        ("count(*)", "count(*)", ["*"]),
        ("-s1 + -2", "-s1 + -2", ["s1"]),
        ("`a b`.`c` % 3", "`a b`.c % 3", ["`a b`.c"]),
        (
            "s1 > 1 && !(s2 == 'x' || s3 REGEXP '^a')",
            "s1 > 1 AND NOT (s2 = 'x' OR s3 RLIKE '^a')",
            ["s1", "s2", "s3"],
        ),
        ("s1 BETWEEN 1 AND 2", "s1 BETWEEN 1 AND 2", ["s1"]),
    ],
)
def test_expressions(written: str, shown: str, paths: list[str]) -> None:
    found = read_expression(Fragment(written))
    assert [str(one) for one in found.paths] == paths
    assert found.shown(paths) == shown


# --- statements -----------------------------------------------------------------------------------


def test_every_clause_of_a_query() -> None:
    select = select_of(
        "select count(s1) as n into aligned root.o.::(n) from root.sg.*, root.sh.d where s1 > 1 "
        "group by ([0, 2025-01-01), 10s, 5s) having count(s1) > 2 fill(previous, 2m) order by time desc "
        "limit 3 offset 4 align by device"
    )
    assert [item.alias for item in select.items] == ["n"]
    assert [(str(target.device), target.measurements) for target in select.into] == [("root.o.::", ("n",))]
    assert [str(source) for source in select.sources] == ["root.sg.*", "root.sh.d"]
    assert select.group is not None
    assert select.group.range == (0, "2025-01-01T00:00:00")
    assert (str(select.group.interval), str(select.group.step)) == ("10s", "5s")
    assert select.fill is not None
    assert (select.fill.method, str(select.fill.within)) == ("PREVIOUS", "2m")
    assert (select.descending, select.limit, select.offset, select.by_device) == (True, 3, 4, True)


def test_the_defaults_of_a_continuous_query() -> None:
    query = query_of(
        "CREATE CQ c BEGIN SELECT sum(s) INTO root.o.d.total FROM root.sg.d GROUP BY(10s, 5s) END"
    )
    assert (str(query.distance), str(query.reach), query.end_offset, query.policy) == (
        "10s",
        "10s",
        None,
        "BLOCKED",
    )
    assert query.select.into[0].measurements == ("total",)
    assert query.text.startswith("CREATE CQ c BEGIN SELECT")


def test_a_name_may_be_a_keyword_in_back_ticks() -> None:
    select = select_of("SELECT `from`, `time` FROM root.sg.`group`")
    assert [str(item.expression.paths[0]) for item in select.items] == ["from", "time"]
    assert str(select.sources[0]) == "root.sg.group"


def test_an_unknown_dialect_names_those_there_are() -> None:
    with pytest.raises(StatementError, match="UNKNOWN_DIALECT") as caught:
        parse_script("SELECT 1", dialect="influx")
    assert "iotdb" in caught.value.hint
