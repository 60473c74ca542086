"""Changed rows summed up by group, for row windows to be cut by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.engine.base.state import CLOSED, EXPIRED
from lakestream.engine.windows.rows.policy import keeps_closed, keeps_expired

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.engine.windows.family import TickInput
    from lakestream.storage.rows.views import View


def summed(given: TickInput, changes: View, state: View) -> pa.Table:
    """Return the changes by group; rows that have expired change nothing, and are listed apart."""
    stream = given.stream
    expiry = stream.expiry
    expired = f"c.expires AND coalesce(c.ts < s.newest - {expiry}L, false)" if expiry else "false"
    names = "".join(f", any_value({name}) AS {name}" for name in stream.group_columns)
    safe, late = ("s.safe", "count_if(kept AND ts <= safe)") if len(given.state) else ("NULL", "0L")
    listed = f", collect_set(at) FILTER (WHERE came) AS {EXPIRED}" if keeps_expired(stream) else ""
    joining, behind = "CAST(NULL AS BIGINT)", ""
    if keeps_closed(stream) and len(given.state):
        # Rows of overlapping windows may be in one that has closed and in one that is open.
        behind = f", IF(s.{CLOSED} IS NULL, NULL, least(s.{CLOSED}, s.resume)) AS behind"
        joining = "min(ts) FILTER (WHERE kept AND ts <= safe AND coalesce(ts >= behind, true))"
    classified = (
        f"SELECT c.* EXCEPT (ts, kept), {safe} AS safe{behind}, IF({expired}, NULL, c.ts) AS ts, "
        f"c.kept AND NOT ({expired}) AS kept, c.ts AS at, c.kept AND ({expired}) AS came "
        f"FROM {changes} c LEFT JOIN {state} s ON s.gid = c.gid"
    )
    return given.spark.sql(
        f"SELECT gid{names}, count_if(kept) AS n, {late} AS late, min(ts) FILTER (WHERE touches) AS low, "
        f"min(ts) FILTER (WHERE kept) AS low_kept, max(ts) FILTER (WHERE kept) AS high, "
        f"max(ts) FILTER (WHERE NOT kept AND touches) AS high_removed, max(ts) AS top, "
        f"max(ts) FILTER (WHERE NOT kept) AS top_removed, {joining} AS joining{listed} "
        f"FROM ({classified}) GROUP BY gid"
    ).toArrow()
