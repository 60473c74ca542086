"""What a query may not do is refused by its text, wherever it stands."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakestream.errors import LakestreamError, StatementError
from lakestream.language import parse_script
from lakestream.language.common.allowed import HARMLESS, REFUSED

DATA = Path(__file__).with_name("data")
ATTEMPTS: dict[str, Any] = yaml.safe_load(DATA.joinpath("attempts.yaml").read_text("utf-8"))


def accepted(statements: list[str]) -> list[str]:
    """Return the statements of which the text is accepted."""
    passed = []
    for statement in statements:
        try:
            parse_script(statement)
        except LakestreamError:
            continue
        passed.append(statement)
    return passed


def tried(places: list[str], mark: str, attempts: list[str]) -> list[str]:
    """Return every attempt in the first two places, and the first ten in all of them."""
    pairs = [*product(places[:2], attempts), *product(places[2:], attempts[:10])]
    return [place.replace(mark, attempt) for place, attempt in pairs]


@pytest.mark.parametrize(
    ("places", "mark", "attempts"),
    [("in_expression", "{f}", "expressions"), ("in_relation", "{t}", "relations")],
)
def test_nothing_in_a_query_does_it(places: str, mark: str, attempts: str) -> None:
    assert accepted(tried(ATTEMPTS[places], mark, ATTEMPTS[attempts])) == []


def test_what_is_refused_is_said_with_the_reason_and_the_place() -> None:
    with pytest.raises(StatementError, match="java_method is not allowed: it runs code of others") as refused:
        parse_script("SELECT v,\n  system.builtin.`Java_Method`('a', 'b') FROM t")
    assert refused.value.code == "FORBIDDEN"
    assert refused.value.place is not None
    assert refused.value.place.line == 2


def test_no_function_is_on_both_lists() -> None:
    assert not HARMLESS.intersection(REFUSED)


def test_no_statement_does_it() -> None:
    assert accepted(ATTEMPTS["statements"]) == []
