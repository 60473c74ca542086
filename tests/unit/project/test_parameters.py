"""Parameters in texts of statements: each value where it stands, and nothing else of the statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream.language.common.source import Source
from lakestream.language.reading.parameters import Filling
from lakestream.language.reading.words import Kind, read_words

if TYPE_CHECKING:
    from lakestream.language.reading.parameters import Parameter

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))


def filled(text: str, **values: Parameter) -> str:
    edited, errors = Filling(values).fill(text)
    assert errors == []
    return edited.text


def refused(text: str, **values: Parameter) -> list[str]:
    return [error.code for error in Filling(values).fill(text)[1]]


@given(TEXTS, st.sampled_from(["'", '"', "`"]))
def test_a_value_within_quotes_is_one_word_and_itself(value: str, mark: str) -> None:
    before, word, after = read_words(Source(filled(f"a {mark}${{x}}{mark} b", x=value)))
    assert (before.text, word.text, after.text) == ("a", value, "b")
    assert word.kind is (Kind.NAME if mark == "`" else Kind.STRING)


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5"), (-5, "-5"), (2.5, "2.5"), (True, "TRUE"), ("15m", "15m"), ("1mo", "1mo")],
)
def test_numbers_truth_values_and_durations_stand_alone(value: Parameter, text: str) -> None:
    assert filled("f(${x})", x=value) == f"f({text})"


def test_a_value_is_a_word_apart() -> None:
    assert filled("a-${x}", x=-1) == "a- -1"  # two signs in a row would be a comment
    assert filled("1${x}${x}a", x=2) == "1 2  2 a"


@pytest.mark.parametrize("value", ["DROP", "1; DROP TABLE t", "", "now()", float("nan"), float("inf"), "1 h"])
def test_other_values_need_quotes(value: Parameter) -> None:
    assert refused("f(${x})", x=value) == ["PARAMETER_INVALID"]


def test_characters_that_no_statement_may_hold_are_refused() -> None:
    assert refused("'${x}'", x="a\nb") == ["PARAMETER_INVALID"]


def test_comments_and_doubled_signs_are_left() -> None:
    assert filled("-- ${y}\n/* ${y} '*/ '$${y}' ${x}", x=1) == "-- ${y}\n/* ${y} '*/ '${y}' 1"


def test_every_missing_parameter_is_told_with_its_place() -> None:
    _, errors = Filling({"limit": 1}).fill("a ${limt}\n'${b}'", "f.sql")
    assert {error.code for error in errors} == {"PARAMETER_MISSING"}
    assert errors[0].hint == "did you mean limit?"
    places = [e.place for e in errors if e.place]
    assert [(p.file, p.line, p.column, p.length) for p in places] == [("f.sql", 1, 3, 7), ("f.sql", 2, 2, 4)]


def test_places_lead_back_to_the_text_as_written() -> None:
    edited, _ = Filling({"long": "a" * 40, "n": 1}).fill("x '${long}' ${n} wrong\nb ${n} c")
    source = Source(edited.text)
    for word, (line, column, length) in {"wrong": (1, 18, 5), "c": (2, 8, 1), "1 c": (2, 3, 6)}.items():
        start = edited.text.rindex(word)
        place = edited.place(source.place(start, start + len(word)))
        assert (place.line, place.column, place.length) == (line, column, length)
