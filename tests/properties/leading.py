"""Whether changed rows lead to every key of a view of which rows are other: many changes of each drawn query.

``python -m tests.properties.leading --count 10000 --seed 7``. No table is written and no stream runs: a query
is computed over rows as they were and as they are, for all keys and for those that the change touches. Rows
of keys that it does not touch are the same before and after, those of touched ones are what the query gives
of these, and rows that are only added give what comes with them.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lakestream import Lake, Settings
from lakestream.compute.windows.keyed.keys import Share, keys_of
from lakestream.compute.windows.keyed.leads import NotKeyedError
from lakestream.engine.creation.compile import compile_stream
from lakestream.language import parse_statement
from lakestream.language.model import CreateStream, WholeTrigger
from lakestream.storage.rows.views import view_of_rows
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession
from tests.properties.followed import START
from tests.properties.shapes import SHAPES, draw
from tests.properties.wide import NAMES, OURS, Drawing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

    from lakestream.compute.windows.calculation import Read
    from lakestream.compute.windows.keyed.keys import Keys

Row = tuple[object, ...]
Tables = dict[str, list[Row]]
SCHEMA = pa.schema(
    {"ts": pa.timestamp("us", "UTC"), "id": pa.int32(), "k": pa.int32(), "g": pa.string(), "v": pa.int32()}
)
MADE = "".join(f"CREATE TABLE {name} (ts TIMESTAMP, id INT, k INT, g STRING, v INT);" for name in NAMES)
"""The statements that make the tables."""
_CHANGES = 12
"""Changes of each query."""


@dataclass
class Case:
    """A query by keys, and the rows of its tables."""

    random: Random
    keys: Keys
    session: SmallSession = field(default_factory=SmallSession)
    count: int = 0
    _next: int = 0

    def differences(self) -> Iterator[str]:
        """Change the tables many times, and give what is other than it should be."""
        before = {f"main.{name}": self._rows(4) for name in NAMES}
        for _ in range(_CHANGES):
            after = self._changed(before)
            moved = {name for name in after if Counter(after[name]) != Counter(before[name])}
            if moved and not moved & self.keys.anywhere:
                self.count += 1
                yield from self._differences(before, after, moved)
            before = after

    def _rows(self, most: int) -> list[Row]:
        return [self._row() for _ in range(self.random.randint(0, most))]

    def _row(self) -> Row:
        choose = self.random.choice
        at = START + timedelta(seconds=30 * self.random.randint(0, 3))
        values = (choose([None, 1, 2, 3]), choose([None, "x", "y", ""]), choose([None, 0, 1, 2, 3]))
        self._next += 1  # orders by it have no ties
        return at, self._next, *values

    def _changed(self, before: Tables) -> Tables:
        after = {name: list(rows) for name, rows in before.items()}
        for name in self.random.sample(sorted(after), self.random.choice([1, 1, 2, 3])):
            rows = after[name]
            gone = self.random.sample(rows, min(len(rows), self.random.choice([0, 0, 1, 2])))
            for row in gone:
                rows.remove(row)
            rows += self._rows(2)
        return after

    def _differences(self, before: Tables, after: Tables, moved: Collection[str]) -> Iterator[str]:
        was, now = self._computed(before, Share.ALL), self._computed(after, Share.ALL)
        touched = self._touched(before, after, moved)
        about = f"\n  {before}\n  {after}"
        if _of(was, touched, there=False) != _of(now, touched, there=False):
            yield f"not led to: {was - now} {now - was}, but {touched}{about}"
        found = self._computed(after, Share.TOUCHED)
        if found != _of(now, touched, there=True):
            yield f"computed otherwise: {found} of {now}{about}"
        alone = self.keys.alone
        added = {} if alone is None else _added(before, after, alone.relation.key)
        if added and (came := self._computed(added, Share.ALL)) != now - was:
            yield f"added alone: {came} for {now - was}{about}"

    def _touched(self, before: Tables, after: Tables, moved: Collection[str]) -> set[int]:
        """Register the touched keys, and return their numbers."""
        for name in after:
            was, now = Counter(before[name]), Counter(after[name])
            went = [*(was - now).elements()]
            self._register(f"went_{name[5:]}", [*went, *(now - was).elements()])
            self._register(f"beside_{name[5:]}", [*now.elements(), *went])
        found: set[int] = set()
        for relation, branches in self.keys.by_touched.items():
            parts = [
                branch.sql(lead, f"went_{lead.read.relation.key[5:]}", _beside, moved)
                for branch in branches
                for lead in branch.leads
            ]
            rows = self.session.sql(" UNION ".join(parts)).toArrow()
            self._register_rows(relation, rows)
            found.update(rows["gid"].to_pylist())
        return found

    def _computed(self, tables: Tables, share: Share) -> Counter[Row]:
        """Return rows with the number of their key first."""
        for read in self.keys.reads:
            self._register(read.view, tables[read.relation.key])
        rows = self.session.sql(self.keys.sql(share)).toArrow()
        place = rows.num_columns - 1 - len(self.keys.behind)
        listed = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        return Counter((row[place], *map(str, row)) for row in listed)

    def _register(self, name: str, rows: Collection[Row]) -> None:
        columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
        arrays = [pa.array([*c], f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        self._register_rows(name, pa.table(arrays, schema=SCHEMA))

    def _register_rows(self, name: str, rows: pa.Table) -> None:
        view_of_rows(cast("SparkSession", self.session), rows, name)


def _beside(read: Read) -> str:
    return f"beside_{read.relation.key[5:]}"


def _of(rows: Counter[Row], touched: Collection[int], *, there: bool) -> Counter[Row]:
    """Return the rows of keys that are touched, or of the others."""
    return Counter({row: count for row, count in rows.items() if (row[0] in touched) is there})


def _added(before: Tables, after: Tables, name: str) -> Tables:
    """Return the tables with what was added alone to one, where nothing else has changed; else none."""
    went = any(Counter(before[one]) - Counter(after[one]) for one in after)
    others = any(Counter(after[one]) != Counter(before[one]) for one in after if one != name)
    rows = Counter(after[name]) - Counter(before[name])
    return {} if went or others else {**after, name: [*rows.elements()]}


def query_of(random: Random) -> str:
    """Draw a query of the tables."""
    if random.random() < 0.7:
        return draw(random, random.choice(SHAPES), random.sample(NAMES, 3))[0]
    return Drawing(random).view().query.format(**OURS)


def keys_in(lake: Lake, query: str) -> Keys | None:
    """Return the keys of a view; None for one by windows, or that is computed as a whole."""
    made = parse_statement(f"CREATE MATERIALIZED VIEW main.w AS {query}")
    assert isinstance(made, CreateStream)
    definition = made.otherwise or made.definition
    if not isinstance(definition.trigger, WholeTrigger):
        return None
    try:
        stream = compile_stream("", definition.within("main"), lake._at.catalog, "UTC", exact=True)
        return keys_of(stream.calculation)
    except NotKeyedError:
        return None


def check(lake: Lake, seed: str, seen: Counter[str]) -> list[str]:
    """Return what is other than it should be of a drawn query."""
    random = Random(seed)
    query = query_of(random)
    keys = keys_in(lake, query)
    if keys is None or keys.is_total:
        seen["not by keys"] += 1
        return []
    seen["by keys" if not keys.anywhere else "by keys, as a whole with some changes"] += 1
    case = Case(random, keys)
    try:
        found = [f"{query}: {one}" for one in case.differences()]
    except NotExactError as why:
        seen[f"for Spark: {why}"] += 1
        return []
    seen["changes"] += case.count
    return found


def main() -> int:
    """Check drawn queries; exit status 1 where rows are other than they should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.leading")
    parser.add_argument("--count", type=int, default=200, help="how many queries (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="other seeds give other queries (default: 1)")
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    failed = 0
    with TemporaryDirectory() as folder, Lake(folder, settings=Settings()) as lake:
        lake.sql(MADE)
        for number in range(options.count):
            seed = f"{options.seed}-{number}"
            found = check(lake, seed, seen)
            failed += bool(found)
            sys.stdout.writelines(f"seed {seed}: {one}\n" for one in found[:2])
            sys.stdout.flush()
    sys.stdout.writelines(f"{count} {what}\n" for what, count in seen.most_common())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
