"""What DuckDB says a stream of INTERVAL windows over in-order rows has written.

``held`` is one row per window and row in it (one with NULLs for an empty window); event times are
integers, microseconds since 1970 UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    import pyarrow as pa

WINDOWS = """
CREATE VIEW held AS
WITH span AS (
    SELECT {group} AS g, min(ts) AS lowest, max(ts) AS highest FROM source GROUP BY g
), numbered AS (
    SELECT g, unnest(range(
        CAST(floor((lowest - {offset} - {length}) / {step}) AS BIGINT) + 1,
        CAST(floor((highest - {offset} - {length}) / {step}) AS BIGINT) + 1
    )) AS k FROM span
), windows AS (
    SELECT g, {offset} + k * {step} AS ws, {offset} + k * {step} + {length} AS we FROM numbered
)
SELECT w.g, w.ws, w.we, s.* FROM windows w
LEFT JOIN source s ON w.g = {group} AND s.ts >= w.ws AND s.ts < w.we
"""


def answer(
    query: str, tables: dict[str, pa.Table], *, group: str, length: int, step: int, offset: int
) -> list[tuple[Any, ...]]:
    """Run a query over ``held`` and the tables; ``source`` is the trigger table."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        connection.execute(WINDOWS.format(group=group, length=length, step=step, offset=offset))
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        return rows
