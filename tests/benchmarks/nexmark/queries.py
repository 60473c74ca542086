"""Nexmark's queries over windows, as streams and as DuckDB's SQL: rows of ``start``, ``key`` and ``n``.

Windows are of ten seconds, those of q5 one every two. q12 is by processing time in Nexmark, and by event time
here, so that all systems have the same to compute. Windows of a bidder close by the bidder's own rows.
"""

from __future__ import annotations

from dataclasses import dataclass

_LENGTH, _STEP = 10_000_000, 2_000_000
_TUMBLING = "INTERVAL(10s) SLIDING(10s)"


@dataclass(frozen=True)
class Query:
    """One query: the stream's trigger and calculation, and the SELECT for its closed windows."""

    trigger: str
    calculation: str
    duckdb: str
    keyed: bool = False
    """Whether a window has several rows."""

    def stream(self) -> str:
        """Return the statement."""
        key = " (start, key COMPOSITE KEY, n)" if self.keyed else ""
        return f"CREATE STREAM q {self.trigger} INTO result{key} AS {self.calculation}"


def _start(step: int) -> str:
    return f"epoch_us(ts) // {step} * {step}"


def _closed(table: str) -> str:
    return f"start + {_LENGTH} <= (SELECT epoch_us(max(ts)) FROM {table})"


QUERIES = {
    # Hot items: the auction with the most bids; of several, the oldest.
    "q5": Query(
        "INTERVAL(10s) SLIDING(2s) FROM bid",
        "SELECT _twstart AS start, auction AS key, count(*) AS n FROM bid"
        " WHERE ts >= _twstart AND ts < _twend GROUP BY auction ORDER BY n DESC, key LIMIT 1",
        f"SELECT start, auction AS key, n FROM (SELECT start - step AS start, auction, sum(n) AS n FROM"
        f" (SELECT {_start(_STEP)} AS start, auction, count(*) AS n FROM bid GROUP BY ALL),"
        f" range(0, {_LENGTH}, {_STEP}) steps(step) GROUP BY ALL) WHERE {_closed('bid')}"
        " QUALIFY row_number() OVER (PARTITION BY start ORDER BY n DESC, auction) = 1",
    ),
    # The highest bid.
    "q7": Query(
        f"{_TUMBLING} FROM bid",
        "SELECT _twstart AS start, max(price) AS key, count(*) AS n FROM %%trows",
        f"SELECT * FROM (SELECT {_start(_LENGTH)} AS start, max(price) AS key, count(*) AS n FROM bid"
        f" GROUP BY ALL) WHERE {_closed('bid')}",
    ),
    # New users: persons who opened auctions in the window in which they came.
    "q8": Query(
        f"{_TUMBLING} FROM person",
        "SELECT _twstart AS start, p.person AS key, count(*) AS n FROM person p JOIN auction a"
        " ON a.seller = p.person AND a.ts >= _twstart AND a.ts < _twend"
        " WHERE p.ts >= _twstart AND p.ts < _twend GROUP BY p.person",
        f"SELECT p.start, person AS key, count(*) AS n FROM (SELECT {_start(_LENGTH)} AS start, person"
        f" FROM person) p JOIN (SELECT {_start(_LENGTH)} AS start, seller FROM auction) a"
        f" ON seller = person AND a.start = p.start WHERE p.{_closed('person')} GROUP BY ALL",
        keyed=True,
    ),
    # Sessions of a user.
    "q11": Query(
        "SESSION(ts, 10s) FROM bid PARTITION BY tbname",
        "SELECT _twstart AS start, max(bidder) AS key, count(*) AS n FROM %%trows",
        "SELECT min(epoch_us(ts)) AS start, bidder AS key, count(*) AS n FROM"
        " (SELECT *, count(*) FILTER (cut) OVER (PARTITION BY bidder ORDER BY ts ROWS UNBOUNDED PRECEDING)"
        " AS number FROM (SELECT *,"
        f" epoch_us(ts) - lag(epoch_us(ts)) OVER (PARTITION BY bidder ORDER BY ts) > {_LENGTH} AS cut"
        " FROM bid)) GROUP BY bidder, number QUALIFY number < max(number) OVER (PARTITION BY bidder)",
    ),
    # Bids of a user in each window.
    "q12": Query(
        f"{_TUMBLING} FROM bid PARTITION BY tbname STREAM_OPTIONS(IGNORE_NODATA_TRIGGER)",
        "SELECT _twstart AS start, max(bidder) AS key, count(*) AS n FROM %%trows",
        f"SELECT start, key, n FROM (SELECT {_start(_LENGTH)} AS start, bidder AS key, count(*) AS n"
        f" FROM bid GROUP BY ALL) JOIN (SELECT bidder, epoch_us(max(ts)) AS newest FROM bid GROUP BY bidder)"
        f" ON bidder = key WHERE start + {_LENGTH} <= newest",
    ),
}
