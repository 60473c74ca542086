"""What two definitions say differently is told in the words of the statement."""

from __future__ import annotations

import pytest

from lakestream.language import parse_statement
from lakestream.language.expressions.differences import differences
from lakestream.language.model import CreateStream, StreamDefinition

NEW = "CREATE STREAM s {} FROM t PARTITION BY {} {} INTO o {} AS SELECT _twstart, count(*) FROM %%trows"
RULE = "CREATE STREAM s WITH (TIMESTAMP='ts') INTO o AS SELECT {} AS l FROM t WHERE {}"
CLASSIC = "CREATE STREAM s {} INTO o AS SELECT _wstart, count(*) FROM t {} INTERVAL({})"


def read(text: str) -> StreamDefinition:
    statement = parse_statement(text)
    assert isinstance(statement, CreateStream)
    return statement.definition


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            NEW.format("SESSION(ts, 20s)", "tbname", "STREAM_OPTIONS(EXACT|MAX_DELAY(5s))", ""),
            NEW.format("COUNT_WINDOW(4)", "loc AS place", "", ""),
            [
                ("trigger", "SESSION(ts, 20s)", "COUNT_WINDOW(4, 4)"),
                ("PARTITION BY", "tbname", "loc AS place"),
                ("STREAM_OPTIONS", "EXACT | MAX_DELAY(5s)", ""),
            ],
        ),
        (
            RULE.format("lag(v)", "had_changed(true, v)"),
            RULE.format("lag(v, 2)", "had_changed(true, v)"),
            [
                (
                    "functions of events",
                    "lag(v), had_changed(true, v)",
                    "lag(v, 2), had_changed(true, v)",
                )
            ],
        ),
        (RULE.format("lag(v)", "latest(v) > 1"), RULE.format("lag( v )", "latest(v )>1"), []),
        (
            NEW.format("STATE_WINDOW(v)", "loc", "", ""),
            NEW.format("STATE_WINDOW(v) TRUE_FOR(3s)", "loc", "", "TAGS (place VARCHAR(8) AS loc)"),
            [
                ("trigger", "STATE_WINDOW(v)", "STATE_WINDOW(v) TRUE_FOR(3s)"),
                ("TAGS", "", "place VARCHAR(8) AS loc"),
            ],
        ),
        (
            CLASSIC.format("TRIGGER AT_ONCE", "", "1m"),
            CLASSIC.format("TRIGGER MAX_DELAY 5s WATERMARK 3s", "", "2m"),
            [
                ("trigger", "INTERVAL(1m) SLIDING(1m)", "INTERVAL(2m) SLIDING(2m)"),
                ("STREAM_OPTIONS", "TRIGGER AT_ONCE", "TRIGGER MAX_DELAY 5s WATERMARK 3s"),
            ],
        ),
        (
            CLASSIC.format("", "WHERE v > 1", "1m"),
            CLASSIC.format("", "WHERE v > 2", "1m"),
            [("STREAM_OPTIONS", "WHERE v > 1", "WHERE v > 2")],
        ),
    ],
)
def test_clauses_are_told_as_they_are_written(
    before: str, after: str, told: list[tuple[str, str, str]]
) -> None:
    assert differences(read(before), read(after)) == told
