"""What CREATE STREAM refuses, by the dimensions of tests.properties.dimensions: plain rules, in plain words.

Each rule is the documents' (TDengine's manuals of both syntaxes) or a decision that stands above them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, str]

GRIDS = ("tumbling", "hopping", "gaps")
OF_ONE_TABLE = ("state", "reaching states", "event", "count", "sliding count", "count by one")
"""Windows whose rows must be of one table."""
CUT_BY_ROWS = ("session", *OF_ONE_TABLE)
GROUPED_BY_TABLE = ("table", "table and tag")


def refused(values: Values) -> str | None:
    """Return why a combination is refused, None where it is not."""
    rules = {**ALWAYS, **(CLASSIC if values["syntax"] == "classic" else NEW)}
    return next((why for why, holds in rules.items() if holds(values)), None)


def _is_cut_of_several_tables(of: Values) -> bool:
    return (
        of["trigger"] in OF_ONE_TABLE
        and of["source"] in ("super", "nested")
        and of["groups"] not in GROUPED_BY_TABLE
    )


ALWAYS: dict[str, Callable[[Values], bool]] = {
    "state, event and count windows over a super table need tbname": _is_cut_of_several_tables,
    "a subtable is named by the grouping": lambda of: of["output"] == "subtable" and of["groups"] == "none",
}

NEW: dict[str, Callable[[Values], bool]] = {
    "windows that reach to each other are computed as they close": lambda of: (
        of["trigger"] == "reaching states" and of["emission"] != "close"
    ),
    "SLIDING and PERIOD have no windows that open": lambda of: (
        of["trigger"] in ("sliding", "period") and of["emission"] in ("open", "open and close", "max delay")
    ),
    "PERIOD is not triggered by event time": lambda of: (
        of["trigger"] == "period"
        and (
            of["watermark"] != "0s"
            or of["policy"] in ("exact", "delete recalc", "expired and deletes")
            or of["history"] != "none"
        )
    ),
    "SLIDING leaves deletes out": lambda of: (
        of["trigger"] == "sliding" and of["policy"] in ("delete recalc", "expired and deletes")
    ),
    "COUNT_WINDOW leaves deletes out unless it slides by one row": lambda of: (
        of["trigger"] in ("count", "sliding count")
        and of["policy"] in ("delete recalc", "expired and deletes")
    ),
    "windows that are cut by rows are never without rows": lambda of: (
        of["trigger"] in CUT_BY_ROWS and of["empty windows"] == "dropped"
    ),
    "EXACT needs subtables that are each of one group": lambda of: (
        of["policy"] == "exact" and of["output"] == "subtable" and of["groups"] == "table and tag"
    ),
}

CLASSIC: dict[str, Callable[[Values], bool]] = {
    "EXTEND is of the newer syntax": lambda of: of["trigger"] == "reaching states",
    "a query without a window over a super table goes by table, or writes one table": lambda of: (
        of["trigger"] == "each row"
        and of["source"] in ("super", "nested")
        and of["groups"] in ("tag", "expression")
    ),
    "SLIDING is at most INTERVAL": lambda of: of["trigger"] == "gaps",
    "COUNT_WINDOW counts at least two rows": lambda of: of["trigger"] == "count of one",
    "state, event and count windows need rows of different times": lambda of: (
        of["trigger"] in OF_ONE_TABLE and of["key"] == "composite" and of["source"] != "nested"
    ),
    "FORCE_WINDOW_CLOSE goes with INTERVAL alone and computes once": lambda of: (
        of["emission"] == "by the clock"
        and (of["trigger"] != "tumbling" or of["policy"] != "ignore 11" or of["history"] != "none")
    ),
    "CONTINUOUS_WINDOW_CLOSE goes with INTERVAL": lambda of: (
        of["emission"] == "periodic" and of["trigger"] not in GRIDS
    ),
    "FILL goes with windows that the clock or time closes": lambda of: (
        of["fill"] != "none"
        and (of["trigger"] not in GRIDS or of["emission"] not in ("by the clock", "periodic"))
    ),
    "FILL(PREV) reads the output's windows": lambda of: of["fill"] == "PREV" and of["output"] == "existing",
}
