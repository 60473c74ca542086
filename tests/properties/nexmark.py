"""Materialized views of Nexmark's queries, joins above all, under changes of each table, against DuckDB.

``python -m tests.properties.nexmark --count 10 --seed 7``. Each history loads persons, auctions and bids,
then adds some of each, corrects rows and deletes others, with crashes between; in the end every view holds
what its query gives. Times and prices meet often: several bids are the highest, and windows have many rows.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from tests.properties.followed import run_histories
from tests.properties.loads import Load, Rows, differences, insert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream import Lake

TABLES = """
CREATE TABLE person (ts TIMESTAMP, id INT COMPOSITE KEY, name VARCHAR(20), city VARCHAR(20),
  state VARCHAR(2));
CREATE TABLE auction (ts TIMESTAMP, id INT COMPOSITE KEY, item VARCHAR(20), expires TIMESTAMP, seller INT,
  category INT);
CREATE TABLE bid (ts TIMESTAMP, id INT COMPOSITE KEY, auction INT, bidder INT, price BIGINT,
  channel VARCHAR(10));
CREATE TABLE side_input (ts TIMESTAMP, id INT COMPOSITE KEY, value VARCHAR(20));
"""
START = datetime(2025, 1, 1, tzinfo=UTC)
MINUTE = "date_trunc('MINUTE', {}.ts)"
_FINAL = (
    "SELECT a.id, a.category, a.seller, a.expires, max(b.price) AS final FROM auction a, bid b "
    "WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires "
    "GROUP BY a.id, a.category, a.seller, a.expires"
)

QUERIES = {
    "q2": "SELECT auction, price FROM bid WHERE auction % 3 = 0",
    "q3": "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id "
    "WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')",
    "q4": f"SELECT category, avg(final) AS mean FROM ({_FINAL}) q GROUP BY category",
    "q6": "SELECT seller, id, avg(final) OVER (PARTITION BY seller ORDER BY expires, id "
    f"ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean FROM ({_FINAL}) q",
    "q7": "SELECT b.auction, b.price, b.bidder, b.ts FROM bid b JOIN "
    f"(SELECT {MINUTE.format('c')} AS minute, max(c.price) AS most FROM bid c "
    f"GROUP BY {MINUTE.format('c')}) m ON b.price = m.most AND {MINUTE.format('b')} = m.minute",
    "q8": f"SELECT p.id, p.name, {MINUTE.format('p')} AS minute FROM person p JOIN auction a "
    f"ON p.id = a.seller AND {MINUTE.format('p')} = {MINUTE.format('a')} "
    f"GROUP BY p.id, p.name, {MINUTE.format('p')}",
    "q9": "SELECT id, item, seller, bidder, price FROM (SELECT a.id, a.item, a.seller, b.bidder, b.price, "
    "row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC NULLS LAST, b.ts, b.id) AS place "
    "FROM auction a, bid b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires) q WHERE place <= 1",
    "q13": "SELECT b.auction, b.bidder, b.price, s.value FROM bid b "
    "JOIN side_input s ON b.auction % 4 = s.id",
    "q17": "SELECT auction, date_trunc('DAY', ts) AS day, count(*) AS bids, count(*) FILTER "
    "(WHERE price < 3) AS low, min(price) AS least, max(price) AS most, avg(price) AS mean, "
    "sum(price) AS total FROM bid GROUP BY auction, date_trunc('DAY', ts)",
    "q18": "SELECT auction, bidder, price, channel FROM (SELECT *, row_number() OVER (PARTITION BY bidder, "
    "auction ORDER BY ts DESC, id DESC) AS place FROM bid) q WHERE place <= 1",
    "q19": "SELECT auction, bidder, price FROM (SELECT *, row_number() OVER (PARTITION BY auction "
    "ORDER BY price DESC NULLS LAST, id) AS place FROM bid) q WHERE place <= 10",
    "q20": "SELECT b.auction, b.bidder, b.price, a.item, a.seller FROM bid b JOIN auction a "
    "ON b.auction = a.id WHERE a.category = 10",
    # The auctions with at least as many bids as one has in the mean.
    "q102": "SELECT a.id, a.item, count(b.id) AS bids FROM auction a JOIN bid b ON a.id = b.auction "
    "GROUP BY a.id, a.item HAVING count(b.id) >= (SELECT count(*) / count(DISTINCT auction) FROM bid)",
    # The auctions of which nobody has bid.
    "q104": "SELECT a.id, a.item FROM auction a WHERE a.id NOT IN (SELECT b.auction FROM bid b "
    "WHERE b.auction IS NOT NULL)",
    # The highest bid of each auction, those without one too.
    "q105": "SELECT a.id, a.item, count(b.id) AS bids, max(b.price) AS most FROM auction a "
    "LEFT JOIN bid b ON a.id = b.auction GROUP BY a.id, a.item",
}


@dataclass
class World(Load):
    """An auction house."""

    TABLES: ClassVar[str] = TABLES
    QUERIES: ClassVar[Mapping[str, str]] = QUERIES

    def load(self) -> Rows:
        """Return the first rows of all tables."""
        self.rows = {
            "person": {n: self._person(n) for n in range(5)},
            "auction": {n: self._auction(n) for n in range(8)},
            "bid": {n: self._bid(n) for n in range(25)},
            "side_input": {n: (START, n, f"side {n}") for n in range(3)},
        }
        return {**self.rows}

    def _at(self) -> datetime:
        return START + timedelta(seconds=self.random.randrange(0, 300, 5))

    def _person(self, number: int) -> tuple[Any, ...]:
        pick, choose = self.random.randrange, self.random.choice
        return (self._at(), number, f"name {pick(3)}", choose(["Rome", None]), choose(["OR", "CA", "NY"]))

    def _auction(self, number: int) -> tuple[Any, ...]:
        pick, choose = self.random.randrange, self.random.choice
        at = self._at()
        expires = choose([None, *(at + timedelta(seconds=pick(1, 200)) for _ in range(4))])
        return (at, number, f"item {pick(4)}", expires, choose([None, *range(6)]), choose([10, 10, 11]))

    def _bid(self, number: int) -> tuple[Any, ...]:
        pick, choose = self.random.randrange, self.random.choice
        rest = (choose([None, *range(10)]), pick(6), choose([None, *range(7)]), choose(["web", "app"]))
        return (self._at(), number, *rest)

    def _row(self, name: str, number: int) -> tuple[Any, ...]:
        if name == "side_input":
            return (START, number, f"side {self.random.randrange(9)}")
        made = {"person": self._person, "auction": self._auction, "bid": self._bid}
        return made[name](number)

    def change(self, lake: Lake) -> None:
        """Add rows, correct one or delete some."""
        name = self.random.choice(["person", "auction", "auction", "bid", "bid", "bid", "side_input"])
        rows, what = self.rows[name], self.random.random()
        if what < 0.4 or not rows:
            first = max(rows, default=0) + 1
            new = {n: self._row(name, n) for n in range(first, first + self.random.randint(1, 3))}
        elif what < 0.75:
            key = self.random.choice(sorted(rows))
            new = {key: (rows[key][0], *self._row(name, key)[1:])}  # the time is a part of the key
        else:
            gone = self.random.sample(sorted(rows), min(len(rows), self.random.choice([1, 1, 3])))
            self.rows[name] = {key: row for key, row in rows.items() if key not in gone}
            lake.sql(f"DELETE FROM {name} WHERE id IN ({', '.join(map(str, gone))})")
            return
        rows |= new
        insert(lake, {name: new})


def main() -> int:
    """Run histories of views of Nexmark's queries."""
    return run_histories(
        "python -m tests.properties.nexmark",
        "let Spark say the types of results",
        lambda seed, _: differences(World(Random(seed)), (*QUERIES,), steps=3),
    )


if __name__ == "__main__":
    sys.exit(main())
