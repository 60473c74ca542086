"""Events of an auction house, the same in each run: of fifty one person, three auctions and 46 bids.

As in Nexmark there are hot auctions, and bidders are active for a while. There are a thousand of these, who
come back, so that all their sessions but the last are followed by another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.benchmarks.data import SECOND_US, START_US

if TYPE_CHECKING:
    from pathlib import Path

EVENTS_PER_SECOND = 1_000
_OF_FIFTY_PERSONS, _OF_FIFTY_AUCTIONS = 1, 3
_SEED = 7
_BIDDERS, _ACTIVE, _ACTIVE_SECONDS = 1_000, 50, 2
_RECENT_AUCTIONS, _HOT_SHARE = 100, 0.5
_RECENT_PERSONS = 50
_COMMITS = 10


@dataclass(frozen=True)
class Events:
    """The three tables, in the order of time."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table


def events(count: int) -> Events:
    """Return so many events, a thousand a second."""
    number = np.arange(count)
    times = START_US + number * (SECOND_US // EVENTS_PER_SECOND)
    place, fifty = number % 50, number // 50
    random = np.random.default_rng(_SEED)
    persons = place < _OF_FIFTY_PERSONS
    auctions = (place >= _OF_FIFTY_PERSONS) & (place < _OF_FIFTY_PERSONS + _OF_FIFTY_AUCTIONS)
    bids = ~persons & ~auctions
    return Events(
        _table(times[persons], "city", random.integers(0, 100, persons.sum()), "p", "person", fifty[persons]),
        _table(
            times[auctions],
            "category",
            random.integers(0, 10, auctions.sum()),
            "s",
            "seller",
            np.maximum(0, fifty[auctions] - random.integers(0, _RECENT_PERSONS, auctions.sum())),
        ),
        _bids(times[bids], fifty[bids], random),
    )


def _bids(times: np.ndarray, fifty: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Return bids: half of them for the hot auction of their time, by those who are active then."""
    newest = fifty * _OF_FIFTY_AUCTIONS
    recent = np.maximum(0, newest - random.integers(0, _RECENT_AUCTIONS, len(times)))
    hot = newest // _RECENT_AUCTIONS * _RECENT_AUCTIONS
    auction = np.where(random.random(len(times)) < _HOT_SHARE, hot, recent)
    shift = (times - START_US) // (_ACTIVE_SECONDS * SECOND_US)
    bidder = (shift * _ACTIVE + random.integers(0, _ACTIVE, len(times))) % _BIDDERS
    bids = _table(times, "auction", auction, "b", "bidder", bidder)
    price = pa.array(random.integers(1, 10_000_000, len(times)), pa.int64())
    return bids.add_column(2, "price", price)


def _table(
    times: np.ndarray, column: str, values: np.ndarray, prefix: str, tag: str, tags: np.ndarray
) -> pa.Table:
    """Return rows of a super table with a column and a tag; its subtables are named by the tag."""
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            column: pa.array(values, pa.int64()),
            "tbname": pa.array(np.char.add(prefix, tags.astype(str))),
            tag: pa.array(tags, pa.int64()),
        }
    )


TABLES = {
    "person": "ts TIMESTAMP, city BIGINT) TAGS (person BIGINT",
    "auction": "ts TIMESTAMP, category BIGINT) TAGS (seller BIGINT",
    "bid": "ts TIMESTAMP, auction BIGINT, price BIGINT) TAGS (bidder BIGINT",
}
"""Columns and tags of the super tables."""


def write(folder: Path, count: int) -> None:
    """Append the events to the three tables of a folder, each in commits."""
    made = events(count)
    for name in TABLES:
        rows: pa.Table = getattr(made, name)
        size = -(-rows.num_rows // _COMMITS)
        table = DeltaTable(folder / name)
        for first in range(0, rows.num_rows, size):
            write_deltalake(table, rows.slice(first, size), mode="append")
