"""The table of dimensions itself: what it can draw, and how much of it the pairwise histories have."""

from __future__ import annotations

from itertools import islice
from random import Random

from lakestream.errors import LakestreamError
from lakestream.language import parse_statement
from tests.properties.dimensions import (
    DIMENSIONS,
    Combination,
    accepted,
    covered,
    covering,
    draw,
    possible,
    sentence,
)
from tests.properties.matrix import EACH, HISTORIES, PAIRWISE


def test_every_value_is_in_a_combination_that_is_not_refused() -> None:
    there = {value for pair in accepted() for value in pair}
    assert there == {(name, value) for name, values in DIMENSIONS.items() for value in values}


def test_the_pairwise_histories_have_nearly_every_pair() -> None:
    drawn = islice(covering(Random(PAIRWISE), EACH), HISTORIES)
    had = {pair for _, streams in drawn for of in streams for pair in covered(of)}
    assert len(possible() - had) < 0.05 * len(possible())


def test_a_statement_is_refused_where_the_reference_says_so() -> None:
    random = Random("statements")
    drawn = [draw(random, {}) for _ in range(600)]
    wrong = [f"{of}: {_refusal(of)}" for of in drawn if not _agrees(of)]
    assert not wrong, "\n".join(wrong)


BY_THE_LAKE = {
    "state, event and count windows over a super table need tbname",
    "state, event and count windows need rows of different times",
    "FILL(PREV) reads the output's windows",
    "EXACT needs subtables that are each of one group",
    "a query without a window over a super table goes by table, or writes one table",
}
"""What takes the tables to tell, and not the text alone."""


def _agrees(of: Combination) -> bool:
    return bool(_refusal(of)) == (of.refused is not None) or of.refused in BY_THE_LAKE


def _refusal(of: Combination) -> str:
    try:
        parse_statement(sentence(of.of, "s", "o"))
    except LakestreamError as error:
        return f"{error.code}: {error.message}"
    return ""
