"""Rows of an output that give way to those of a tick: of windows that refire or are retracted, of equal keys.

One rule, by two ways of moving bytes: Arrow rewrites the keys, or where they are many their span of time;
Spark always a span. What lies there and does not give way is written again with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from lakestream.language.quoting import DELTA, SPARK, delta_name, delta_text, quoted
from lakestream.output.columns import micros
from lakestream.storage.delta import align, read_arrow, timestamp_literal
from lakestream.storage.rows.reading import among, arrow_frame, instant_literal
from lakestream.storage.writes.keys import ends_of, meets_keys, numbered, span_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from lakestream.engine.base.rows import Rows
    from lakestream.engine.streams.target import Target
    from lakestream.language.quoting import Quoting
    from lakestream.output.columns import OutputShape, Provenance
    from lakestream.storage.delta import Table

MAX_LITERALS = 300
"""Keys that a predicate lists one by one; beyond that a range of time is rewritten."""


@dataclass(frozen=True)
class Replacing:
    """What gives way in an output; ``retracted`` lists (gid, low µs) of windows whose old rows go.

    Of rows with one key that of the later window stays, then that of the greater group, whichever came first.
    Rows of a table that does not say where they come from give way to any of their key. ``beside`` are rows
    that were computed with those to write and go elsewhere: old ones of their keys give way all the same.
    """

    table: Table
    target: Target
    retracted: pa.Table | None
    beside: Rows | None = None

    @property
    def _provenance(self) -> Provenance | None:
        return self.target.shape.provenance

    # --- few rows ---

    def by_arrow(self, rows: pa.Table) -> tuple[pa.Table, str | None]:
        """Return rows with what stays of what they replace, and the predicate of that; None to append."""
        computed = self._computed(rows)
        replaced = self._replaced(computed)
        return (
            (rows, None) if replaced is None else (self._with_survivors(rows, computed, replaced), replaced)
        )

    def _computed(self, rows: pa.Table) -> pa.Table:
        """Return the rows to write and those beside, as far as it is by them that old ones give way."""
        import pyarrow as pa

        if self.beside is None:
            return rows
        provenance = self._provenance.types if self._provenance else ()
        names = [*dict.fromkeys([*self.target.shape.key, *provenance])]
        beside = self.beside.to_arrow().select(names)
        return pa.concat_tables([rows.select(names), beside.cast(rows.select(names).schema)])

    def _replaced(self, rows: pa.Table) -> str | None:
        """Return the predicate of what goes: rows of retracted windows, and of equal keys."""
        parts = []
        provenance = self._provenance
        if self.retracted is not None and provenance:
            parts.append(windows_predicate(provenance, self.retracted))
        if not self.target.appends or (self.retracted is not None and not provenance):
            self.table.refresh()
            time, key = self.target.info.time_column, self.target.shape.key
            if not parts and not meets_keys(self.table, rows, key, time):
                return None
            parts.append(self._keys_predicate(rows))
        elif provenance and parts:
            parts.append(windows_predicate(provenance, provenance.windows(rows)))
        replaced = " OR ".join(f"({one})" for one in parts if one)
        return of_own(self.target.shape, replaced) if replaced else None

    def _keys_predicate(self, rows: pa.Table) -> str:
        """Return the predicate of the rows' keys, or of their span of time when there are many."""
        if rows.num_rows == 0:
            return ""
        time = self.target.info.time_column
        name = delta_name(time)
        if rows.num_rows > MAX_LITERALS:
            first, last = map(instant_literal, span_of(rows, time))
            return f"{name} >= {first} AND {name} <= {last}"
        others = [column for column in self.target.shape.key if column != time]
        by_rest: dict[tuple[Any, ...], set[int]] = {}
        for at, instant in enumerate(micros(rows[time])):
            by_rest.setdefault(tuple(rows[column][at].as_py() for column in others), set()).add(instant)
        return " OR ".join(
            f"({' AND '.join([among(name, lows), *map(_equals, others, rest)])})"
            for rest, lows in by_rest.items()
        )

    def _with_survivors(self, rows: pa.Table, computed: pa.Table, predicate: str) -> pa.Table:
        """Add the rows that the predicate covers of which neither window nor key is computed anew."""
        import numpy as np
        import pyarrow as pa

        self.table.refresh()
        old = read_arrow(self.table, None, where=predicate)
        if old.num_rows == 0:
            return rows
        held, written, own = numbered(self._keys(old), self._keys(computed), self._keys(rows))
        last = np.full(len(held) + len(written) + len(own), -1)
        last[written] = np.arange(len(written))  # of rows with one key the last one counts
        at = last[held]
        goes = at >= 0
        if self._provenance:
            there = self._provenance.windows(old)
            if len(written):
                goes &= ~_outlast(there, self._provenance.windows(computed).take(np.maximum(at, 0)))
            goes |= self._is_retracted(there)
        survivors = old.filter(pa.array(~goes))
        if survivors.num_rows == 0:
            return rows
        rows = rows.filter(pa.array(~np.isin(own, held[~goes])))
        # A table of the user's may have columns that the stream does not write.
        whole = align(rows, self.table.schema)
        return pa.concat_tables([whole, align(survivors, self.table.schema)])

    def _keys(self, rows: pa.Table) -> pa.Table:
        """Return the key of each row; of rows without one, their window."""
        if not self.target.shape.key and self._provenance:
            return self._provenance.windows(rows).select(["gid", "low"])
        return rows.select([*self.target.shape.key])

    def _is_retracted(self, windows: pa.Table) -> np.ndarray:
        """Return which windows are among the retracted ones."""
        import numpy as np

        if self.retracted is None:
            return np.zeros(len(windows), bool)
        names = ["gid", "low"]
        there, gone = numbered(windows.select(names), self.retracted.select(names))
        return np.isin(there, gone)

    # --- many rows: the same by Spark, always by a range of time ---

    def by_spark(self, rows: DataFrame) -> tuple[DataFrame, str | None]:
        """Return rows with what stays of the ranges that they replace, and the ranges' predicate."""
        from pyspark.sql.functions import expr

        key = [*self.target.shape.key]
        computed = rows if self.beside is None else self._computed_frame(rows)
        ranges = self._replaced_ranges(computed)
        if not ranges:
            return rows, None
        predicate = " OR ".join(
            f"({time} >= {timestamp_literal(low)} AND {time} <= {timestamp_literal(high)})"
            for time, low, high in ranges
        )
        predicate = of_own(self.target.shape, predicate, SPARK)
        spark = rows.sparkSession
        read = spark.read.format("delta").option("versionAsOf", self.table.refresh())
        old = read.load(self.table.path).where(predicate)
        provenance = self._provenance
        if self.retracted is not None and provenance:
            retracted = arrow_frame(spark, self.retracted).alias("g")
            old = old.alias("o").join(retracted, _goes_sql(provenance), "left_anti")
        if provenance and not self.target.appends:
            rows = rows.alias("n").join(old.alias("o"), _outlasts_sql(provenance, key), "left_anti")
        if not key and provenance:
            written = computed.selectExpr(f"{provenance.group} AS gid", f"{provenance.start} AS start")
            same = f"o.{provenance.group} = g.gid AND o.{provenance.start} = g.start"
            stay = old.alias("o").join(written.distinct().alias("g"), expr(same), "left_anti")
            return rows.unionByName(stay, allowMissingColumns=True), predicate
        return rows.unionByName(_unwritten(old, computed, key), allowMissingColumns=True), predicate

    def _computed_frame(self, rows: DataFrame) -> DataFrame:
        """Return the rows to write and those beside, by their keys and windows."""
        assert self.beside is not None  # by by_spark
        provenance = self._provenance.types if self._provenance else ()
        names = [*map(quoted, dict.fromkeys([*self.target.shape.key, *provenance]))]
        return rows.select(*names).unionByName(self.beside.frame.select(*names))

    def _replaced_ranges(self, rows: DataFrame) -> list[tuple[str, int, int]]:
        """Return (SQL of a time, first µs, last µs) of where rows lie that may be replaced."""
        provenance, appends = self._provenance, self.target.appends
        time = provenance.start if appends and provenance else quoted(self.target.info.time_column)
        ends = rows.selectExpr(*(f"unix_micros({end}({time}))" for end in ("min", "max"))).head()
        low, high = ends or (None, None)
        ranges = [] if low is None or high is None else [(time, low, high)]
        if self.retracted is not None and self.retracted.num_rows and provenance:
            ranges.append((provenance.start, *ends_of(self.retracted["low"])))
        return ranges


def of_own(shape: OutputShape, predicate: str, quoting: Quoting = DELTA) -> str:
    """Return a predicate of rows of an output as one of those that are the stream's own."""
    own = shape.own(quoting)
    return f"{own} AND ({predicate})" if own else predicate


def windows_predicate(places: Provenance, windows: pa.Table) -> str:
    """Return the predicate, for delta-rs, of the rows of windows (gid, low µs); of many, of their span."""
    if not windows.num_rows:
        return ""
    group, start = places.group, places.start
    if windows.num_rows > MAX_LITERALS:
        first, last = map(instant_literal, ends_of(windows["low"]))
        return f"{start} >= {first} AND {start} <= {last}"
    by_group: dict[int, set[int]] = {}
    for gid, low in zip(windows["gid"].to_pylist(), windows["low"].to_pylist(), strict=True):
        by_group.setdefault(gid, set()).add(low)
    return " OR ".join(f"({group} = {gid} AND {among(start, lows)})" for gid, lows in by_group.items())


def _equals(column: str, value: object) -> str:
    """Return the condition of rows with a value; of one that delta-rs may not find, that of all with any."""
    name = delta_name(column)
    if value is None:
        return f"{name} IS NULL"
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    if isinstance(value, bytes) or (isinstance(value, float) and (value == 0 or not isfinite(value))):
        return f"{name} IS NOT NULL"
    return f"{name} = {repr(value) if isinstance(value, int | float) else delta_text(str(value))}"


def _outlast(old: pa.Table, new: pa.Table) -> np.ndarray:
    """Return which windows stay where others, one for each, write their key: the later ones do."""
    import pyarrow.compute as pc

    later = pc.greater(old["low"], new["low"])
    for name in ("gid", "high"):
        later = pc.or_(pc.greater(old[name], new[name]), pc.and_(pc.equal(old[name], new[name]), later))
    other = pc.or_(pc.not_equal(old["gid"], new["gid"]), pc.not_equal(old["low"], new["low"]))
    found: np.ndarray = pc.fill_null(pc.and_(later, other), False).to_numpy()
    return found


def _unwritten(old: DataFrame, rows: DataFrame, key: list[str]) -> DataFrame:
    from pyspark.sql.functions import expr

    return old.alias("o").join(rows.select(*key).alias("n"), expr(_same_sql(key)), "left_anti")


def _same_sql(key: list[str]) -> str:
    """Return what holds for rows n and o of one key; a group may be NULL."""
    return " AND ".join(f"n.{quoted(name)} <=> o.{quoted(name)}" for name in key)


def _goes_sql(places: Provenance) -> Column:
    """Return what holds for a row o of a window g that goes."""
    from pyspark.sql.functions import expr

    return expr(f"o.{places.group} = g.gid AND o.{places.start} = timestamp_micros(g.low)")


def _outlasts_sql(places: Provenance, key: list[str]) -> Column:
    """Return what :func:`_outlast` says of a row n to be written and one o that is there."""
    from pyspark.sql.functions import expr

    group, start, end = places.group, places.start, places.end
    order = f"struct(o.{end}, o.{group}, o.{start}) > struct(n.{end}, n.{group}, n.{start})"
    other = f"NOT (o.{group} = n.{group} AND o.{start} = n.{start})"
    return expr(" AND ".join([_same_sql(key), other, order]))
