"""Statements of other programs are refused by name, with the page that has what stands in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakestream.errors import NotSupportedError, StatementError
from lakestream.language import parse_script
from lakestream.language.parser import _STATEMENTS
from lakestream.language.tdengine.foreign import _HEADS
from tests.docs.pages import ROOT, blocks

TAILS = ("", " x", " x AS SELECT 1", " IF NOT EXISTS `a b` (c INT)", " 'x' {", " OR", "; SELECT 1")
QUERIES = {
    "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))": "flink",
    "INSERT INTO o SELECT * FROM TABLE ( hop(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))": "flink",
    "WITH a AS (SELECT 1) SELECT * FROM a MATCH_RECOGNIZE (PATTERN (A B) DEFINE A AS v > 1)": "flink",
    "SELECT * FROM {{ ref('minutes') }}": "dbt",
    "{{ config(materialized='incremental') }} SELECT 1": "dbt",
    "{% if is_incremental() %} SELECT 1 {% endif %}": "dbt",
    '{"id": "r", "sql": "SELECT 1", "actions": []}': "ekuiper",
}


def refused(text: str) -> StatementError:
    with pytest.raises(StatementError) as caught:
        parse_script(text)
    return caught.value


def code_of(text: str) -> str:
    try:
        parse_script(text)
    except StatementError as error:
        return error.code
    return ""


@pytest.mark.parametrize("page", _HEADS)
def test_what_begins_as_elsewhere_leads_to_its_page(page: str) -> None:
    assert (ROOT / "docs" / "coming-from" / f"{page}.md").exists()
    for words in _HEADS[page]:
        for tail in TAILS:
            for text in (" ".join(words) + tail, " ".join(words).lower() + tail):
                error = refused(text)
                assert isinstance(error, NotSupportedError), text
                assert f"coming-from/{page}`" in error.hint, text
                assert error.place is not None
                assert (error.place.line, error.place.column) == (1, 1), text


@pytest.mark.parametrize(("text", "page"), QUERIES.items())
def test_queries_of_others_lead_to_their_page(text: str, page: str) -> None:
    error = refused(text)
    assert (error.code, f"coming-from/{page}`" in error.hint) == ("NOT_SUPPORTED", True)


@pytest.mark.parametrize("page", ["flink", "declarative-pipelines", "dbt"])
def test_what_a_page_begins_with_leads_back_to_it(page: str) -> None:
    shown = [one.text for one in blocks(ROOT / "docs" / "coming-from" / f"{page}.md") if not one.language]
    assert f"coming-from/{page}`" in refused(shown[0]).hint


@pytest.mark.parametrize("words", _STATEMENTS, ids=" ".join)
def test_words_that_are_right_are_not_proposed_for_themselves(words: tuple[str, ...]) -> None:
    for kept in range(1, len(words)):
        begun = " ".join(words[:kept])
        if words[0] in ("DESCRIBE", "DESC"):  # a table of that name
            continue
        error = refused(f"{begun} pigeon")
        if error.code == "SYNTAX":
            assert "found 'pigeon'" in error.message
        else:
            assert error.message == f"{words[0]} is not supported"
        assert words[kept] in error.message + error.hint


NEIGHBOURS = (Path(__file__).parent / "data" / "neighbours.sql").read_text().splitlines()
"""How statements of Spark SQL, Delta, Databricks, Flink, TDengine, IoTDB, eKuiper and PostgreSQL begin."""


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_no_statement_of_a_neighbour_is_bare_syntax(text: str) -> None:
    assert code_of(text) != "SYNTAX"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("DESCRIBE TABLE t", "DESCRIBE t"),
        ("DESC EXTENDED t", "DESCRIBE t"),
        ("DESCRIBE TABLE FORMATTED `a b`", "DESCRIBE `a b`"),
        ("DESCRIBE TABLE t EXTENDED", "DESCRIBE t"),
        ("SHOW SCHEMAS", "SHOW DATABASES"),
        ("USE DATABASE main", "USE main"),
        ("USE SCHEMA main", "USE main"),
        ("INSERT INTO TABLE t VALUES (NOW, 1)", "INSERT INTO t VALUES (NOW, 1)"),
    ],
)
def test_words_of_others_that_say_nothing_more_are_taken(text: str, same: str) -> None:
    assert parse_script(text)[0] == parse_script(same)[0]


@pytest.mark.parametrize("name", ["extended", "history", "detail", "schema", "catalog", "view"])
def test_a_table_may_have_the_name_of_a_word(name: str) -> None:
    for text in (f"DESCRIBE {name}", f"DESCRIBE main.{name}", f"INSERT INTO {name} VALUES (NOW, 1)"):
        parse_script(text)
