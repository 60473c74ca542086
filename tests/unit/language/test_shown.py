"""What triggers a stream, as a line for people."""

from __future__ import annotations

import pytest

from lakestream.language import parse_statement
from lakestream.language.model import CreateStream
from lakestream.language.streams import trigger_of


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        (
            (
                "CREATE STREAM s INTERVAL(1h) SLIDING(1h) FROM t INTO o AS SELECT 'TUMBLINGWINDOW(ss, 1)'"
                " AS x, _twstart AS w FROM %%trows"
            ),
            "INTERVAL(1h) SLIDING(1h)",
        ),
        (
            (
                "CREATE STREAM s WITH (TIMESTAMP='ts') INTO o AS SELECT count(*) AS c FROM t "
                "GROUP BY g, TumblingWindow(ss,  10)"
            ),
            "TUMBLINGWINDOW(ss, 10)",
        ),
        (
            (
                "CREATE STREAM s WITH (TIMESTAMP='ts') INTO o AS SELECT count(*) AS c FROM t "
                "GROUP BY HOPPINGWINDOW(mi, 10, 5)"
            ),
            "HOPPINGWINDOW(mi, 10, 5)",
        ),
    ],
)
def test_a_trigger_is_told_in_the_words_of_its_dialect(statement: str, line: str) -> None:
    read = parse_statement(statement)
    assert isinstance(read, CreateStream)
    assert trigger_of(read.definition) == line
