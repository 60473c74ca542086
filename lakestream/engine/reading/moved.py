"""The keys of a view that changed rows move: what is kept of them, with what came added and what went taken.

Where that is not exact, or not all that counts, nothing is moved, and the keys are computed from their rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import localcontext
from typing import TYPE_CHECKING, Any

from lakestream.compute.windows.keyed.kept import MOVED, SIGN
from lakestream.engine.reading.relations import EVER
from lakestream.engine.reading.touched import MAX_KEYS, rows_there, versions_of
from lakestream.language.quoting import quoted
from lakestream.storage.delta import read_commits, was_last_written_by
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.compute.windows.calculation import Read
    from lakestream.compute.windows.keyed.kept import Kept
    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.target import Target

    Row = dict[str, Any]
    """What is kept of a key, by the names of the parts."""

_RAW = "ls_raw_moved"
_DIGITS = 100
"""Digits in which decimals are added up and divided: more than a sum of them has beside a quotient's."""


@dataclass
class MovedKeys:
    """The keys of a view that one tick moves."""

    relations: Relations
    target: Target
    kept: Kept
    needs_all: bool = False
    """Whether the rows of the output cannot be gone by: of two keys of one number, or that others wrote."""

    def find(self) -> list[int] | None:
        """Register what is kept of the keys that move, and return their numbers; None: that is not told."""
        output = self.relations.tables.latest(self.target.info.path)
        self.needs_all = not was_last_written_by(output, f"lakestream:{self.relations.stream.uuid}:")
        if self.needs_all:
            return None
        changes = self._changes()
        read = self.kept.moving(changes)
        if read is None:
            return None if changes else []
        changed = self._changed(read, changes[read.relation.key])
        rows = changed.to_pylist()
        if len(rows) > 2 * MAX_KEYS or not all(map(self._is_exact, rows)):
            return None
        with localcontext(prec=_DIGITS):
            moves = self._moves(rows)
            gids = [gid for gid, _ in moves]
            there = self._rows_there(gids) if gids else {}
            self.needs_all = len({*gids}) < len(gids) or self._meets_others(moves, there)
            found = None if self.needs_all else self._merged(moves, there)
            for row in found or ():
                row.update({mean.name: mean.of(row) for mean in self.kept.means})
        if found:
            view_of_rows(self.relations.spark, self._as_rows(gids, found, changed), MOVED)
        return None if found is None else gids

    def _changes(self) -> dict[str, tuple[int, int]]:
        """Return the versions of which the tick takes changes, by table."""
        stream, found = self.relations.stream, {}
        for read in stream.calculation.reads:
            versions = None if read.relation.version is not None else versions_of(self.relations, read)
            path = stream.tables[read.relation.key].path
            if versions is not None and any(one.data_change for one in read_commits(path, *versions)):
                found[read.relation.key] = versions
        return found

    def _changed(self, read: Read, versions: tuple[int, int]) -> pa.Table:
        """Return what is kept, of the rows that came and of those that went."""
        relations = self.relations
        path = relations.stream.tables[read.relation.key].path
        raw = view_of(relations.transport.changes(path, *versions, read.relation.columns), _RAW)
        came = "_change_type IN ('insert', 'update_postimage')"
        listed = ", ".join(map(quoted, read.relation.columns))
        signed = f"SELECT {listed}, CASE WHEN {came} THEN 1 ELSE -1 END AS {SIGN} FROM {raw}"
        view_of_sql(relations.spark, signed, read.view)
        relations.tables_read([EVER], without=frozenset({read.view}))
        sql = self.kept.keeping.changed_sql(self.kept, read)
        return relations.spark.sql(f"{sql} LIMIT {2 * MAX_KEYS + 1}").toArrow()

    def _moves(self, changed: Sequence[Row]) -> list[tuple[int, Row]]:
        """Return by how much keys move, with their numbers; those that stay as they are left out."""
        keys, parts = self._names(keys=True), self._names(keys=False)
        sums: dict[tuple[Any, ...], tuple[int, Row]] = {}
        for row in changed:
            values = tuple(row[name] for name in keys)
            _, move = sums.setdefault(values, (row["gid"], dict(zip(keys, values, strict=True))))
            for name in parts:
                move[name] = (move.get(name) or 0) + row[SIGN] * (row[name] or 0)
        return [(gid, move) for gid, move in sums.values() if any(move[name] for name in parts)]

    def _rows_there(self, gids: Sequence[int]) -> dict[int, list[Row]]:
        """Return what the output keeps of keys, by their numbers."""
        places = {part.name: part.shown for part in self.kept.parts}
        rows = rows_there(self.relations, self.target, gids, places).to_pylist()
        found: dict[int, list[Row]] = {}
        for row in rows:
            found.setdefault(row.pop("gid"), []).append(row)
        return found

    def _meets_others(self, moves: Sequence[tuple[int, Row]], there: Mapping[int, list[Row]]) -> bool:
        """Return whether rows that the output has under the number of a key are those of another one."""
        keys = self._names(keys=True)
        return any(
            len(there.get(gid, ())) > 1 or any(row[name] != move[name] for row in there.get(gid, ()))
            for gid, move in moves
            for name in keys
        )

    def _merged(self, moves: Sequence[tuple[int, Row]], there: Mapping[int, list[Row]]) -> list[Row] | None:
        """Return what is kept of the moved keys now; None where that is not exact, or not known."""
        parts, found = self._names(keys=False), []
        for gid, move in moves:
            rows = there.get(gid, [])
            if not rows and (self.kept.having or self.kept.is_global):
                return None  # a row that does not show is not known
            before = rows[0] if rows else {}
            now = {name: (before.get(name) or 0) + move[name] for name in parts}
            if now[self.kept.rows] < 0 or not self._is_exact(now):
                return None
            found.append({**move, **now, **self._of_nothing(now)})
        return found

    def _of_nothing(self, row: Row) -> dict[str, None]:
        """Return the sums that nothing is left in: NULL, as where they are computed from rows."""
        return {part.name: None for part in self.kept.parts if part.count and not row[part.count]}

    def _is_exact(self, row: Row) -> bool:
        """Return whether what is made of some parts is exact: what is not in the sums is not told by them."""
        return all(part.most is None or (row[part.name] or 0) <= part.most for part in self.kept.parts)

    def _as_rows(self, gids: Sequence[int], found: Sequence[Row], changed: pa.Table) -> pa.Table:
        import pyarrow as pa

        types = {part.name: changed.schema.field(part.name).type for part in self.kept.parts}
        types |= {mean.name: pa.decimal128(mean.digits, mean.scale) for mean in self.kept.means}
        columns = {name: pa.array([row[name] for row in found], kind) for name, kind in types.items()}
        return pa.table({"gid": pa.array(gids, pa.int64()), **columns})

    def _names(self, *, keys: bool) -> list[str]:
        return [part.name for part in self.kept.parts if part.is_key == keys]


def register_unmoved(spark: SparkSession, kept: Kept) -> None:
    """Register that no key has moved."""
    types = {part.name: part.type for part in kept.parts} | {mean.name: mean.type for mean in kept.means}
    listed = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in types.items())
    view_of_sql(spark, f"SELECT 0L AS gid, {listed} WHERE false", MOVED)
