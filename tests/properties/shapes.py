"""Shapes of queries for the drawn views of ``tests.properties.wide``: each a text with alternatives.

``[[x=one|two]]`` is one of them, ``[[x]]`` the same one again, ``$rows`` a part that several have; ``{a}``,
``{b}`` and ``{c}`` are the tables in any order. Behind ``##`` stands DuckDB's text where that is another one.
Each query has the columns k and n.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

_CHOICE = re.compile(r"\[\[(\w+)(?:=([^\[\]]*))?\]\]")
_PARTS = {
    "rows": "[[rows={a} p|{a} p LEFT JOIN {b} q ON q.k = p.k|{a} p JOIN {c} q ON q.g = p.g|"
    "{a} p LEFT JOIN {c} q ON q.g = p.g AND q.v > 1|{a} p LEFT JOIN {a} q ON q.v = p.id]]",
    "inner": "[[inner={b} x|{a} x|{c} x|{b} x JOIN {c} y ON y.g = x.g|{b} x LEFT JOIN {c} y ON y.k = x.k|"
    "(SELECT k, g, max(v) AS v, min(id) AS id FROM {b} GROUP BY k, g) x|"
    "(SELECT k, g, v, id FROM {b} UNION ALL SELECT k, g, v, id FROM {c}) x]]",
    "tied": "[[tied=x.k = p.k|x.g = p.g|x.k <=> p.k|"
    "x.g = p.g AND x.v > p.v|x.v = p.v|x.k = p.k AND x.v > 1]]",
    "more": "[[more=| AND p.v > 0| AND p.v IS NOT NULL| AND p.id % 2 = 0]]",
    "kept": "[[kept=| WHERE v > 0| WHERE v IS NULL OR v < 3| WHERE id % 2 = 1]]",
    "how": "[[how=JOIN|LEFT JOIN|SEMI JOIN|ANTI JOIN]]",
}


def _read() -> tuple[tuple[str, ...], tuple[str, ...]]:
    text = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    found: list[tuple[str, ...]] = []
    for part in text.split("-- Spark alone"):
        lines = (line.strip() for line in part.splitlines() if not line.startswith("--"))
        found.append(tuple(one.strip() for one in " ".join(lines).split(";") if one.strip()))
    plain, spark = found
    return plain, spark


SHAPES, SPARK_SHAPES = _read()
"""What the small path computes, and what Spark alone does."""


def draw(random: Random, shape: str, tables: Sequence[str]) -> tuple[str, str]:
    """Return a query of a shape, and DuckDB's."""
    picks: dict[str, str] = {}

    def pick(found: re.Match[str]) -> str:
        name, options = found[1], found[2]
        if options is not None:
            picks[name] = random.choice(options.split("|"))
        return picks[name]

    for name, part in _PARTS.items():
        shape = shape.replace(f"${name}", part)
    while _CHOICE.search(shape):
        shape = _CHOICE.sub(pick, shape)
    for letter, table in zip("abc", tables, strict=True):
        shape = shape.replace(f"{{{letter}}}", table)
    ours, _, theirs = shape.partition("##")
    theirs = theirs or ours.replace("<=>", "IS NOT DISTINCT FROM")
    return ours.strip(), theirs.strip()
