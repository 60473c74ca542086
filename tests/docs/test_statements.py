"""The statements that the site draws are those that are read."""

from __future__ import annotations

import re

import pytest

from lakestream.errors import StatementError
from lakestream.language import parse_script
from lakestream.language.tdengine.options import _OPTIONS
from lakestream.language.tdengine.triggers import TRIGGERS
from tests.docs.pages import ROOT
from tools.site.grammar import rules, sentences

RULES = rules()
PLACES = {
    **dict.fromkeys(("length", "step", "period"), "10s"),
    "alias": "g#",
    "constant": "0",
    "cq-query": "SELECT avg(m) INTO root.out.::(m) FROM root.a.b GROUP BY (10s) ALIGN BY DEVICE",
    "device": "root.a.b",
    "end": "5s",
    "end-of-range": "2025-01-02T00:00:00",
    "having": "count(*) > 0",
    "hop": "1",
    "item": "count(*) AS n#",
    "kept": "6h",
    "key": "v",
    "measurement": "m",
    "number": "1",
    "other-measurement": "o#",
    "path-of-series": "root.a.b.m",
    "start-of-range": "2025-01-01T00:00:00",
    "time-text": "'ts'",
    "time-value": "2025-01-01T00:00:00",
    "tolerance": "'5s'",
    "tree-condition": "m > 1",
    "tree-having": "avg(m) > 1",
    "tree-item": "avg(m)",
    "zone": "'+08:00'",
    "catalog-table": "c.d.t",
    "check": "e#",
    "column": "v#",
    "condition": "v > 1",
    "count": "2",
    "expression": "v % 2",
    "gap": "5s",
    "instant": "'2025-01-01'",
    "offset": "1s",
    "output": "o",
    "path": "'/p'",
    "query": "SELECT * FROM t",
    "result": "r#",
    "stream": "s",
    "table": "t",
    "tag-name": "k#",
    "text": "'words'",
    "time": "ts",
    "type": "TIMESTAMP",
    "unit": "WEEK",
    "url": "'wss://example.com:443/x#'",
    "view": "v",
    "view-query": "SELECT window.start AS r1, count(*) AS n FROM t GROUP BY window(ts, '1 minute')",
}
"""What stands in places; ``#`` is another number each time."""
STATEMENTS = {
    **dict.fromkeys(
        ("create-stream", "manage-stream", "recalculate", "create-view", "create-table", "comment"),
        "tdengine",
    ),
    "create-classic": "tdengine",
    "create-ekuiper": "ekuiper",
    **dict.fromkeys(("create-timeseries", "tree-insert", "tree-select", "continuous-query"), "iotdb"),
}
"""What is drawn, and the dialect that it is written in."""


OF_MEANING = (
    "COLUMN_COUNT",
    "DELETE_OUTPUT_WITHOUT_TBNAME",
    "DUPLICATE_COLUMN",
    "IDLE_TIMEOUT_MISSING",
    "NOTIFY_EVENTS",
    "NOTIFY_MISSING",
    "NOT_SUPPORTED: FILL with",
    "NOT_SUPPORTED: WINDOW_CLOSE beside",
    "OPTION_TWICE",
    "OPTION_WITHOUT_EFFECT",
    "OUTPUT_SUBTABLE_WITHOUT_GROUPS",
    "TAGS_WITHOUT_GROUPS",
    "TAG_WITHOUT_PARTITION",
    "VALUE_COUNT",
    "ZEROTH_STATE",
)
"""How an error begins that refuses a sentence which was read to its end: which clauses go together is no
question of the rules."""


def numbered(sentence: str) -> str:
    """Put another number in the place of each ``#``."""
    first, *others = sentence.split("#")
    return first + "".join(f"{number}{other}" for number, other in enumerate(others))


@pytest.mark.parametrize(("name", "dialect"), STATEMENTS.items())
def test_sentences_of_a_rule_are_read(name: str, dialect: str) -> None:
    found = [*sentences(RULES[name], RULES, PLACES)]
    assert len(found) > 2
    for sentence in found:
        try:
            parse_script(numbered(sentence), dialect=dialect)
        except StatementError as error:
            assert str(error).startswith(OF_MEANING), sentence  # noqa: PT017 - most of them are read


def test_the_rules_have_all_triggers_and_options() -> None:
    assert {words.split()[0] for words in sentences(RULES["trigger"], RULES, PLACES)} == set(TRIGGERS)
    assert {words.split()[0] for words in sentences(RULES["option"], RULES, PLACES)} == set(_OPTIONS)


def test_every_diagram_is_of_a_rule() -> None:
    pages = (ROOT / "docs").rglob("*.md")
    shown = {
        name for page in pages for name in re.findall(r"<!-- railroad: (\S+) -->", page.read_text("utf-8"))
    }
    assert shown == set(RULES)
