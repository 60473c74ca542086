"""Materialized views over random histories of three tables, against DuckDB's own evaluation.

``python -m tests.properties.views --count 100 --seed 7``. The histories are those of
:mod:`tests.properties.followed`; in the end every view holds what its query gives over the tables as they
are.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from lakestream import Settings
from tests.properties.followed import TABLES, Reopened, World, in_order, run_histories, some, step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream import Lake


@dataclass(frozen=True)
class Form:
    """A view's query, and what DuckDB evaluates for it where it has no such words."""

    query: str
    ours: str = ""


_CUT = (
    "SELECT *, count(*) FILTER (late) OVER (PARTITION BY {by} ORDER BY ts, site "
    "ROWS UNBOUNDED PRECEDING) AS k FROM (SELECT *, ts - lag(ts) OVER (PARTITION BY {by} "
    "ORDER BY ts, site) > INTERVAL {gap} SECOND AS late FROM meters WHERE {kept})"
)
"""The rows of DuckDB's meters with the number of their session."""

VIEWS = {
    "tumbling": Form(
        "SELECT window.start AS low, s.region, count(*) AS n, sum(m.amps) AS total FROM meters m "
        "JOIN sites s ON s.site = m.site GROUP BY window(m.ts, '2 minutes'), s.region",
        "SELECT to_timestamp(120 * floor(epoch(m.ts) / 120)) AS low, s.region, count(*) AS n, "
        "sum(m.amps) AS total FROM meters m JOIN sites s ON s.site = m.site GROUP BY 1, 2",
    ),
    "hopping": Form(
        "SELECT window.end AS high, count(*) AS n, max(m.amps) AS most FROM meters m "
        "WHERE m.amps > 1 GROUP BY window(m.ts, '2 minutes', '1 minute') HAVING count(*) > 1",
        "SELECT h + INTERVAL 1 MINUTE AS high, count(*) AS n, max(amps) AS most FROM (SELECT amps, "
        "unnest([to_timestamp(60 * floor(epoch(ts) / 60)), to_timestamp(60 * floor(epoch(ts) / 60) + 60)]) "
        "AS h FROM meters WHERE amps > 1) GROUP BY h HAVING count(*) > 1",
    ),
    "missing": Form(
        "SELECT window.start AS low, count(*) AS n, count(s.most) AS known FROM meters m "
        "LEFT JOIN sites s ON s.site = m.site AND s.most > 2 GROUP BY window(m.ts, '1 minute')",
        "SELECT to_timestamp(60 * floor(epoch(m.ts) / 60)) AS low, count(*) AS n, count(s.most) AS known "
        "FROM meters m LEFT JOIN sites s ON s.site = m.site AND s.most > 2 GROUP BY 1",
    ),
    "by_site": Form(
        "SELECT window.start AS low, m.site, s.region, count(*) AS n, max(m.amps) AS most FROM meters m "
        "LEFT JOIN sites s ON s.site = m.site GROUP BY window(m.ts, '2 minutes'), m.site, s.region",
        "SELECT to_timestamp(120 * floor(epoch(m.ts) / 120)) AS low, m.site, s.region, count(*) AS n, "
        "max(m.amps) AS most FROM meters m LEFT JOIN sites s ON s.site = m.site GROUP BY 1, 2, 3",
    ),
    "by_number": Form(
        "SELECT window.start AS low, Amps, count(DISTINCT site) AS n FROM meters "
        "GROUP BY window(ts, '2 minutes', '1 minute'), 2 HAVING count(*) < 4",
        "SELECT h AS low, amps, count(DISTINCT site) AS n FROM (SELECT site, amps, "
        "unnest([to_timestamp(60 * floor(epoch(ts) / 60) - 60), to_timestamp(60 * floor(epoch(ts) / 60))]) "
        "AS h FROM meters) GROUP BY 1, 2 HAVING count(*) < 4",
    ),
    "sessions": Form(
        "SELECT session_window.start AS low, session_window.end AS high, m.site, count(*) AS n, "
        "sum(m.amps) AS total FROM meters m WHERE m.amps > 0 "
        "GROUP BY session_window(m.ts, '40 seconds'), m.site",
        "SELECT min(ts) AS low, max(ts) + INTERVAL 40 SECOND AS high, site, count(*) AS n, "
        f"sum(amps) AS total FROM ({_CUT.format(by='site', gap=40, kept='amps > 0')}) GROUP BY site, k",
    ),
    "sessions_of_all": Form(
        "SELECT session_window(ts, '20 seconds').start AS low, count(DISTINCT site) AS sites FROM meters "
        "GROUP BY session_window(ts, '20 seconds') HAVING count(*) > 1",
        "SELECT min(ts) AS low, count(DISTINCT site) AS sites FROM "
        f"({_CUT.format(by='true', gap=20, kept='true')}) GROUP BY k HAVING count(*) > 1",
    ),
    "by_key": Form("SELECT region, count(*) AS n, max(most) AS most FROM sites GROUP BY region"),
    "distinct_rows": Form("SELECT DISTINCT site, region FROM sites WHERE most IS NOT NULL"),
    "joined": Form(
        "SELECT m.site, m.amps, r.factor FROM meters m JOIN sites s ON s.site = m.site "
        "LEFT JOIN regions r ON r.region = s.region",
    ),
    "right_joined": Form(
        "SELECT s.region, m.amps, r.factor FROM meters m RIGHT JOIN sites s ON s.site = m.site "
        "LEFT JOIN regions r ON r.region = s.region"
    ),
    "full_joined": Form(
        "SELECT m.site, m.amps, s.region, r.factor FROM meters m FULL JOIN sites s ON s.site = m.site "
        "AND s.most > m.amps LEFT JOIN regions r ON r.region = s.region"
    ),
    "full_groups": Form(
        "SELECT coalesce(s.region, r.region) AS region, count(s.site) AS n, max(r.factor) AS most "
        "FROM sites s FULL JOIN regions r ON r.region = s.region GROUP BY coalesce(s.region, r.region)"
    ),
    "without_others": Form("SELECT site, amps AS n FROM meters EXCEPT ALL SELECT site, most FROM sites"),
    "in_both": Form(
        "SELECT site, amps FROM meters INTERSECT (SELECT site, most FROM sites UNION ALL "
        "SELECT m.site, r.factor FROM meters m, regions r WHERE r.region = 'x')"
    ),
    "renamed": Form(
        "WITH q(a, b) AS (SELECT site, amps FROM meters WHERE amps > 0) "
        "SELECT q.a, s.region, max(q.b) AS most FROM q JOIN sites s ON s.site = q.a GROUP BY q.a, s.region"
    ),
    "beyond_the_most": Form(
        "SELECT m.site, m.amps FROM meters m, "
        "(SELECT most FROM sites ORDER BY most DESC NULLS LAST LIMIT 1) q WHERE m.amps >= q.most"
    ),
    "united": Form("SELECT site AS name, most AS n FROM sites UNION ALL SELECT region, factor FROM regions"),
    "united_once": Form("SELECT site, amps AS n FROM meters UNION SELECT site, most FROM sites"),
    "united_with_others": Form(
        "SELECT region, 'of sites' AS what FROM sites UNION SELECT region, 'of regions' FROM regions "
        "WHERE factor > 1 UNION ALL SELECT s.region, m.site FROM meters m JOIN sites s ON s.site = m.site"
    ),
    "united_groups": Form(
        "SELECT site FROM meters GROUP BY site HAVING count(*) > 1 "
        "UNION SELECT site FROM sites WHERE most > 1"
    ),
    "top": Form(
        "SELECT site, amps FROM (SELECT site, amps, row_number() OVER (PARTITION BY site "
        "ORDER BY amps DESC, ts) AS place FROM meters WHERE amps IS NOT NULL) t WHERE place <= 2",
    ),
    "by_factor": Form(
        "SELECT r.factor, s.most, count(*) AS n, count(DISTINCT m.amps) AS kinds FROM meters m "
        "LEFT JOIN sites s ON s.site = m.site LEFT JOIN regions r ON r.region = s.region "
        "GROUP BY r.factor, s.most"
    ),
    "by_comma": Form(
        "SELECT s.region, max(m.amps) AS most, min(r.factor) AS least FROM meters m, sites s, regions r "
        "WHERE m.site = s.site AND s.region = r.region AND m.amps > 0 GROUP BY s.region HAVING count(*) > 1"
    ),
    "most_of_counts": Form(
        "WITH c AS (SELECT m.site, m.amps, count(*) AS n FROM meters m JOIN sites s ON s.site = m.site "
        "GROUP BY m.site, m.amps) SELECT site, max(n) AS most, count(*) AS kinds FROM c GROUP BY site"
    ),
    "unknown": Form(
        "SELECT m.site, count(*) AS n FROM meters m LEFT ANTI JOIN sites s ON s.site = m.site AND s.most > 2 "
        "GROUP BY m.site",
        "SELECT m.site, count(*) AS n FROM meters m ANTI JOIN sites s ON s.site = m.site AND s.most > 2 "
        "GROUP BY m.site",
    ),
    "projected": Form("SELECT site, amps + 1 AS more FROM meters WHERE amps IS NOT NULL"),
    "first_of_region": Form(
        "SELECT region, site, amps FROM (SELECT s.region, m.site, m.amps, row_number() OVER (PARTITION BY "
        "s.region ORDER BY m.amps DESC, m.site, m.ts, s.ts) AS place FROM meters m LEFT JOIN sites s "
        "ON s.site = m.site WHERE m.amps IS NOT NULL) t WHERE place = 1"
    ),
    "counted_sites": Form(
        "SELECT DISTINCT s.region, r.factor FROM sites s LEFT JOIN regions r ON r.region = s.region "
        "AND r.factor > 1"
    ),
    "of_all": Form("SELECT count(*) AS n, max(amps) AS most FROM meters"),
    "of_view": Form(
        "SELECT region, sum(n) AS n FROM tumbling_v GROUP BY region",
        "SELECT s.region, count(*) AS n FROM meters m JOIN sites s ON s.site = m.site GROUP BY 1",
    ),
}


def differences(seed: str, names: Sequence[str], steps: int, *, crashes: float = 0.3) -> list[str]:
    """Run one history, and return what is other than it should be; ``crashes`` is how likely one is."""
    return differences_of(seed, {name: VIEWS[name] for name in names}, steps, crashes=crashes)


def differences_of(seed: str, views: Mapping[str, Form], steps: int, *, crashes: float = 0.3) -> list[str]:
    """Run one history of views by their names, as :func:`differences`."""
    random = Random(seed)
    world, folder = World(random), mkdtemp(prefix="views-")
    try:
        with Reopened(folder, Settings(checkpoint_ticks=2), random) as lakes:
            with lakes.process() as lake:
                lake.sql(TABLES)
                for _ in range(random.randint(0, 3)):
                    lake.sql(world.statement())
                for name, form in views.items():
                    lake.sql(f"CREATE MATERIALIZED VIEW {name}_v AS {form.query}")
            for _ in range(steps):
                step(lakes, world, crashes)
            with lakes.process() as lake:
                lake.run()
                return [
                    found for name, form in views.items() if (found := _compared(lake, world, name, form))
                ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compared(lake: Lake, world: World, name: str, form: Form) -> str:
    expected = in_order(world.database().execute(form.ours or form.query).fetchall())
    found = in_order(lake.sql(f"SELECT * FROM {name}_v").fetchall())
    failed = [stream.last_error for stream in lake.streams() if stream.last_error]
    if found == expected and not failed:
        return ""
    return f"{name}: {form.query} {failed} {world.rows}\n  found    {found}\n  expected {expected}"


def _some(seed: str) -> list[str]:
    """Draw a few of the views; the one over another has that before it."""
    drawn = some(seed, [name for name in VIEWS if name != "tumbling"], 4)
    return ["tumbling", *drawn]


def main() -> int:
    """Run histories of materialized views."""
    return run_histories(
        "python -m tests.properties.views",
        "let Spark say the types of results",
        lambda seed, _: differences(seed, _some(seed), steps=4),
    )


if __name__ == "__main__":
    sys.exit(main())
