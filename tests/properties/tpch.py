"""Materialized views in the shape of TPC-H's queries, under refreshes like its RF1 and RF2, against DuckDB.

``python -m tests.properties.tpch --count 10 --seed 7``. Each history loads small tables, then adds orders
with their items (RF1), deletes others (RF2), and corrects customers, nations and suppliers besides, with
crashes between; in the end every view holds what its query gives. Amounts are whole cents: their sums are
exact in any order.
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
CREATE TABLE region (ts TIMESTAMP, r_regionkey INT COMPOSITE KEY, r_name VARCHAR(20));
CREATE TABLE nation (ts TIMESTAMP, n_nationkey INT COMPOSITE KEY, n_name VARCHAR(20), n_regionkey INT);
CREATE TABLE supplier (ts TIMESTAMP, s_suppkey INT COMPOSITE KEY, s_nationkey INT);
CREATE TABLE customer (ts TIMESTAMP, c_custkey INT COMPOSITE KEY, c_nationkey INT, c_mktsegment VARCHAR(20));
CREATE TABLE orders (ts TIMESTAMP, o_orderkey INT COMPOSITE KEY, o_custkey INT, o_orderpriority VARCHAR(20));
CREATE TABLE lineitem (ts TIMESTAMP, l_id INT COMPOSITE KEY, l_orderkey INT, l_suppkey INT, l_quantity INT,
  l_price BIGINT, l_discount INT, l_returnflag VARCHAR(1), l_linestatus VARCHAR(1), l_shipmode VARCHAR(8));
"""
START = datetime(1995, 1, 1, tzinfo=UTC)
REVENUE = "sum(l.l_price * (100 - l.l_discount))"

QUERIES = {
    "q1": "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, avg(l_price) AS mean, "
    "count(*) AS n FROM lineitem WHERE year(ts) = 1995 AND month(ts) < 10 "
    "GROUP BY l_returnflag, l_linestatus",
    "q3": f"SELECT l.l_orderkey, {REVENUE} AS revenue, o.ts AS ordered FROM customer c, orders o, lineitem l "
    "WHERE c.c_mktsegment = 'BUILDING' AND c.c_custkey = o.o_custkey AND l.l_orderkey = o.o_orderkey "
    "GROUP BY l.l_orderkey, o.ts",
    "q5": f"SELECT n.n_name, {REVENUE} AS revenue FROM customer c, orders o, lineitem l, supplier s, "
    "nation n, region r WHERE c.c_custkey = o.o_custkey AND l.l_orderkey = o.o_orderkey AND "
    "l.l_suppkey = s.s_suppkey AND c.c_nationkey = s.s_nationkey AND s.s_nationkey = n.n_nationkey AND "
    "n.n_regionkey = r.r_regionkey AND r.r_name = 'ASIA' GROUP BY n.n_name",
    "q6": "SELECT sum(l_price * l_discount) AS revenue FROM lineitem WHERE l_discount BETWEEN 3 AND 7",
    "q7": "SELECT supplier, buyer, shipped, sum(volume) AS revenue FROM (SELECT a.n_name AS supplier, "
    "b.n_name AS buyer, year(l.ts) AS shipped, l.l_price AS volume FROM supplier s JOIN lineitem l "
    "ON s.s_suppkey = l.l_suppkey JOIN orders o ON o.o_orderkey = l.l_orderkey JOIN customer c "
    "ON c.c_custkey = o.o_custkey JOIN nation a ON s.s_nationkey = a.n_nationkey JOIN nation b "
    "ON c.c_nationkey = b.n_nationkey WHERE a.n_name <> b.n_name) shipping "
    "GROUP BY supplier, buyer, shipped",
    "q10": f"SELECT c.c_custkey, n.n_name, {REVENUE} AS revenue FROM customer c JOIN orders o "
    "ON c.c_custkey = o.o_custkey JOIN lineitem l ON l.l_orderkey = o.o_orderkey JOIN nation n "
    "ON c.c_nationkey = n.n_nationkey WHERE l.l_returnflag = 'R' GROUP BY c.c_custkey, n.n_name "
    "HAVING count(*) > 1",
    "q12": "SELECT l.l_shipmode, sum(CASE WHEN o.o_orderpriority = 'URGENT' THEN 1 ELSE 0 END) AS high, "
    "count(*) AS n FROM orders o JOIN lineitem l ON o.o_orderkey = l.l_orderkey WHERE l.ts > o.ts "
    "GROUP BY l.l_shipmode",
    "q13": "SELECT n, count(*) AS customers FROM (SELECT c.c_custkey, count(o.o_orderkey) AS n "
    "FROM customer c LEFT JOIN orders o ON c.c_custkey = o.o_custkey AND o.o_orderpriority <> 'LOW' "
    "GROUP BY c.c_custkey) per_customer GROUP BY n",
    "by_customer": "SELECT c.c_custkey, count(o.o_orderkey) AS n FROM customer c LEFT JOIN orders o "
    "ON c.c_custkey = o.o_custkey AND o.o_orderpriority <> 'LOW' GROUP BY c.c_custkey",
    "q15": "SELECT suppkey, total FROM (SELECT suppkey, total, row_number() OVER (PARTITION BY nation "
    "ORDER BY total DESC, suppkey) AS place FROM (SELECT l.l_suppkey AS suppkey, s.s_nationkey AS nation, "
    "sum(l.l_price) AS total FROM lineitem l JOIN supplier s ON s.s_suppkey = l.l_suppkey "
    "GROUP BY l.l_suppkey, s.s_nationkey) revenue) ranked WHERE place = 1",
    "q16": "SELECT s.s_nationkey, count(DISTINCT l.l_shipmode) AS modes FROM supplier s LEFT JOIN lineitem l "
    "ON l.l_suppkey = s.s_suppkey GROUP BY s.s_nationkey",
    "items": "SELECT o.o_orderkey, l.l_id, n.n_name FROM lineitem l JOIN orders o ON o.o_orderkey = "
    "l.l_orderkey LEFT JOIN customer c ON c.c_custkey = o.o_custkey LEFT JOIN nation n "
    "ON n.n_nationkey = c.c_nationkey WHERE l.l_quantity > 10",
    "without_orders": "SELECT c.c_custkey FROM customer c LEFT JOIN orders o ON o.o_custkey = c.c_custkey "
    "WHERE o.o_orderkey IS NULL",
}


@dataclass
class World(Load):
    """The tables of orders, their items, and who buys and sells them."""

    TABLES: ClassVar[str] = TABLES
    QUERIES: ClassVar[Mapping[str, str]] = QUERIES
    _next: int = 1

    def load(self) -> Rows:
        """Return the first rows of all tables."""
        pick = self.random.randrange
        self.rows = {
            "region": {n: (START, n, ("ASIA", "EUROPE")[n]) for n in range(2)},
            "nation": {n: (START, n, f"nation {n}", n % 2) for n in range(5)},
            "supplier": {n: (START, n, pick(5)) for n in range(6)},
            "customer": {n: self._customer(n) for n in range(12)},
            "orders": {},
            "lineitem": {},
        }
        added = self.refresh_1(25)
        return {**self.rows, **added}

    def _customer(self, number: int) -> tuple[Any, ...]:
        choose = self.random.choice
        return (START, number, choose([None, *range(5)]), choose(["BUILDING", "AUTO"]))

    def refresh_1(self, count: int) -> Rows:
        """RF1: return new orders with their items."""
        pick, choose = self.random.randrange, self.random.choice
        added: Rows = {"orders": {}, "lineitem": {}}
        for order in range(self._next, self._next + count):
            at = START + timedelta(days=pick(365))
            added["orders"][order] = (at, order, choose([None, *range(14)]), choose(["URGENT", "LOW", None]))
            for line in range(pick(4)):
                number = order * 10 + line
                shipped = at + timedelta(days=pick(-3, 60))
                flags = (choose("RAN"), choose("OF"), choose(["AIR", "SHIP", "RAIL"]))
                item = (shipped, number, order, pick(7), pick(1, 50), pick(100, 100_000), pick(11), *flags)
                added["lineitem"][number] = item
        self._next += count
        for name, rows in added.items():
            self.rows[name] |= rows
        return added

    def refresh_2(self) -> list[str]:
        """RF2: delete an order with its items; return the statements."""
        if not self.rows["orders"]:
            return []
        order = self.random.choice(sorted(self.rows["orders"]))
        del self.rows["orders"][order]
        items = self.rows["lineitem"]
        self.rows["lineitem"] = {key: row for key, row in items.items() if row[2] != order}
        return [
            f"DELETE FROM orders WHERE o_orderkey = {order}",
            f"DELETE FROM lineitem WHERE l_orderkey = {order}",
        ]

    def correct(self) -> Rows:
        """Return a row of a customer, a nation or a supplier as it is from now on."""
        name = self.random.choice(["customer", "nation", "supplier"])
        key = self.random.choice(sorted(self.rows[name]))
        pick = self.random.randrange
        rows: dict[str, tuple[Any, ...]] = {
            "customer": self._customer(key),
            "nation": (START, key, f"nation {pick(7)}", pick(2)),
            "supplier": (START, key, pick(5)),
        }
        row = rows[name]
        self.rows[name][key] = row
        return {name: {key: row}}

    def change(self, lake: Lake) -> None:
        """Change the tables once."""
        what = self.random.random()
        if what < 0.4:
            insert(lake, self.refresh_1(self.random.randint(1, 3)))
        elif what < 0.7:
            for statement in self.refresh_2():
                lake.sql(statement)
        else:
            insert(lake, self.correct())


def main() -> int:
    """Run histories of views in the shape of TPC-H's queries."""
    return run_histories(
        "python -m tests.properties.tpch",
        "let Spark say the types of results",
        lambda seed, _: differences(World(Random(seed)), (*QUERIES,), steps=3),
    )


if __name__ == "__main__":
    sys.exit(main())
