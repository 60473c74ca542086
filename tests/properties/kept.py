"""Views whose keys changed rows move, drawn at random, over random histories, against DuckDB.

``python -m tests.properties.kept --count 100 --seed 7``. Each history is one of
:mod:`tests.properties.followed`, with crashes, and each view of it has keys, aggregates, conditions and joins
of its own. What is counted besides is how often keys were moved, and not computed from all of their rows.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

from lakestream.engine.reading.moved import MovedKeys
from tests.properties.followed import run_histories
from tests.properties.views import Form, differences_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_METERS, _SITES, _REGIONS = "meters m", "sites s ON s.site = m.site", "regions r ON r.region = s.region"
_FROM: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    _METERS: (("m.site", "m.amps", "date_trunc('MINUTE', m.ts)"), ("m.amps",)),
    f"{_METERS} JOIN {_SITES}": (("m.site", "s.region", "s.most", "m.amps"), ("m.amps", "s.most")),
    f"{_METERS} LEFT JOIN {_SITES}": (("m.site", "s.region", "m.amps % 2"), ("m.amps", "s.most")),
    f"{_METERS} SEMI JOIN {_SITES} AND s.most > 1": (("m.site",), ("m.amps",)),
    f"{_METERS} ANTI JOIN {_SITES}": (("m.site", "m.amps"), ("m.amps",)),
    f"{_METERS} CROSS JOIN regions r": (("m.site", "r.region"), ("m.amps", "r.factor")),
    f"{_METERS} LEFT JOIN {_SITES} LEFT JOIN {_REGIONS}": (
        ("m.site", "r.factor", "s.most"),
        ("m.amps", "s.most", "r.factor"),
    ),
    f"{_METERS} FULL JOIN {_SITES}": (
        ("m.site", "s.site", "coalesce(m.site, s.region)", "m.amps % 2", "s.most"),
        ("m.amps", "s.most"),
    ),
    f"sites s FULL JOIN {_REGIONS} AND r.factor > s.most LEFT JOIN meters m ON m.amps = r.factor": (
        ("s.region", "r.region", "m.site", "r.factor", "coalesce(s.site, 'x')"),
        ("s.most", "r.factor", "m.amps"),
    ),
    f"{_METERS} FULL JOIN {_SITES} JOIN {_REGIONS}": (
        ("m.site", "s.region", "r.factor"),
        ("m.amps", "s.most", "r.factor"),
    ),
    f"sites s LEFT JOIN {_REGIONS} AND r.factor > 1": (
        ("s.region", "r.factor", "s.site"),
        ("s.most", "r.factor"),
    ),
}
"""What rows come from, what they may be grouped by, and what of them may be added up."""

_AGGREGATES = (
    "count(*)",
    "count({v})",
    "sum({v})",
    "avg({v})",
    "sum({v}) FILTER (WHERE {v} > 2)",
    "count(*) FILTER (WHERE {v} IS NULL)",
    "sum({v} * {w} - 3)",
    "sum(CAST({v} AS BIGINT) * 1000000000 * {w})",
    "avg({v} - {w})",
    "coalesce(sum({v}), -1) + count({w}) * 2",
    "CASE WHEN count({v}) > 1 THEN avg({v}) END",
    "sum(1)",
)
_HAVING = ("count(*) > 1", "sum({v}) > 4", "n0 > 2", "count({v}) < 3 OR sum({v}) IS NULL")
_OTHERS = ("max({v})", "count(DISTINCT {v})", "min({v}) + count(*)")


def drawn(random: Random) -> Form:
    """Return a view of keys and aggregates that may be moved; some few may not."""
    source = random.choice([*_FROM])
    keys_there, values = _FROM[source]
    by = random.sample(keys_there, random.choice([0, 1, 1, 1, min(2, len(keys_there))]))
    given = {"v": random.choice(values), "w": random.choice(values)}
    wanted = random.sample(_AGGREGATES, random.randint(1, 3))
    if random.random() < 0.1:
        wanted.append(random.choice(_OTHERS))
    aggregates = [f"{one.format(**given)} AS n{number}" for number, one in enumerate(wanted)]
    keys = [f"{key} AS k{number}" for number, key in enumerate(by) if random.random() < 0.8]
    where = f" WHERE {given['w']} > 0" if random.random() < 0.3 else ""
    group = f" GROUP BY {', '.join(by)}" if by else ""
    having = f" HAVING {random.choice(_HAVING).format(**given)}" if random.random() < 0.3 else ""
    query = f"SELECT {', '.join([*keys, *aggregates])} FROM {source}{where}{group}{having}"
    return Form(query)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count how often keys are moved (``moved``), and are not (``not``)."""
    found: Counter[str] = Counter()
    find = MovedKeys.find

    def counting(self: MovedKeys) -> list[int] | None:
        gids = find(self)
        found["not" if gids is None else "moved" if gids else "none"] += 1
        return gids

    with patch.object(MovedKeys, "find", counting):
        yield found


def differences(seed: str, *, views: int = 4, steps: int = 4) -> list[str]:
    """Run one history of some drawn views, and return what is other than it should be."""
    random = Random(f"views of {seed}")
    return differences_of(seed, {f"drawn_{number}": drawn(random) for number in range(views)}, steps)


def main() -> int:
    """Run histories of views that are kept."""
    with counted() as found:
        status = run_histories(
            "python -m tests.properties.kept",
            "let Spark say the types of results",
            lambda seed, _: differences(seed),
        )
    sys.stdout.write(f"{found}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
