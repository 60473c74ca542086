"""Materialized views of drawn queries over tables that Spark makes and changes, against DuckDB.

``python -m tests.properties.by_spark --count 20 --seed 7``. As ``tests.properties.wide``, over tables with
what delta-rs does not write: deletion vectors, columns that are mapped (by name and by id), renamed and
dropped, types that were widened, row tracking, and folders of any value. Spark reads the tables for DuckDB.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakestream import Settings
from lakestream.storage.sessions.session import child_session, frame_of, spark_session
from tests.properties.followed import run_histories
from tests.properties.wide import NAMES, History, World
from tests.small import FEW_TABLES, INTERPRETED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

TYPES = {
    "int": "INT",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "float": "FLOAT",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "decimal": "DECIMAL(20, 4)",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "binary": "BINARY",
    "struct": "STRUCT<x: INT, y: STRING>",
}
"""What Spark calls the types of keys."""

FEATURES = (
    "delta.enableDeletionVectors = true",
    "delta.columnMapping.mode = 'name'",
    "delta.columnMapping.mode = 'id'",
    "delta.columnMapping.mode = 'name', delta.enableDeletionVectors = true",
    "delta.enableTypeWidening = true",
    "delta.enableRowTracking = true, delta.enableDeletionVectors = true",
    "delta.checkpointInterval = 2",
)
_MERGE = (
    "MERGE INTO {t} t USING given s ON t.id = s.id WHEN MATCHED AND s.v = 0 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@dataclass
class BySpark(World):
    """Tables of features that are drawn, written by Spark."""

    features: dict[str, str] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    """A column that no view reads, by the table that has it."""

    def make(self) -> None:
        """Make the tables: columns were renamed, and of other types, while they had their first rows."""
        for name in NAMES:
            feature = self.features[name] = self.random.choice(FEATURES)
            folders = self._folders()
            types = {"ts": "TIMESTAMP", "id": "INT", "k": TYPES[self.kind], "g": "STRING", "v": "INT"}
            if "Widening" in feature:
                types["v"] = "SMALLINT"
            columns = ", ".join(f"{self._first_name(name, one)} {kind}" for one, kind in types.items())
            by = f"PARTITIONED BY ({', '.join(folders)})" if folders else ""
            properties = f"delta.enableChangeDataFeed = true, {feature}"
            self.sql(name, f"CREATE TABLE {{t}} ({columns}) USING delta {by} TBLPROPERTIES ({properties})")
            if "Mapping" in feature:
                values = "current_timestamp(), 1000, NULL, NULL, 1"
                self.sql(name, f"INSERT INTO {{t}} VALUES ({values})", "DELETE FROM {t}")
                self.sql(name, "ALTER TABLE {t} RENAME COLUMN was TO v")
            if self.random.random() < 0.8:
                self._add(name)
            if "Widening" in feature:
                self.sql(name, "ALTER TABLE {t} ALTER COLUMN v TYPE INT")

    def _first_name(self, table: str, column: str) -> str:
        return "was" if column == "v" and "Mapping" in self.features[table] else column

    def change(self) -> None:
        """Commit a change of one of the tables."""
        name = self.random.choice(NAMES)
        ids = self.ids[name]
        some = self.random.sample(ids, min(len(ids), self.random.choice([1, 1, 2])))
        ours = f"id IN ({', '.join(map(str, some))})"
        what = self.random.random()
        if not ids or what < 0.3:
            self._add(name)
        elif what < 0.5:
            self.sql(name, f"DELETE FROM {{t}} WHERE {ours}")
            self.ids[name] = [one for one in ids if one not in some]
        elif what < 0.65:
            self.sql(name, f"UPDATE {{t}} SET v = {self._value()} WHERE {ours}")
        elif what < 0.8:
            rows = self._rows(name, 1).to_pylist() + [{**self._row(), "id": one} for one in some]
            self._give(name, rows, _MERGE)
            self._look(name)
        elif what < 0.9:
            self._alter(name)
        elif what < 0.95:
            self.sql(name, "OPTIMIZE {t}")
        else:
            self._restore(name)

    def _alter(self, name: str) -> None:
        """Add a column that no view reads; the one that is there is renamed, dropped or widened."""
        there, feature = self.extra.get(name), self.features[name]
        if there is None:
            self.extra[name] = "more"
            self.sql(name, "ALTER TABLE {t} ADD COLUMN more SMALLINT", "UPDATE {t} SET more = 7 WHERE v > 1")
        elif "Mapping" in feature and self.random.random() < 0.5:
            self.sql(name, f"ALTER TABLE {{t}} DROP COLUMN {there}")
            del self.extra[name]
        elif "Mapping" in feature:
            self.extra[name] = f"{there}_"
            self.sql(name, f"ALTER TABLE {{t}} RENAME COLUMN {there} TO {there}_")
        elif "Widening" in feature:
            self.sql(name, f"ALTER TABLE {{t}} ALTER COLUMN {there} TYPE INT")

    def _restore(self, name: str) -> None:
        """Put the table back by a commit that had the same columns."""
        if name in self.extra or any(one in self.features[name] for one in ("Mapping", "Widening")):
            return
        newest = self.query(name, "DESCRIBE HISTORY {t} LIMIT 1").column("version")[0].as_py()
        self.sql(name, f"RESTORE TABLE {{t}} TO VERSION AS OF {newest - 1}")
        self._look(name)

    def _look(self, name: str) -> None:
        """Take the ids of the rows that are there."""
        self.ids[name] = self.query(name, "SELECT id FROM {t} ORDER BY id").column("id").to_pylist()

    def _add(self, name: str) -> None:
        rows = self._rows(name, self.random.randint(1, 3)).to_pylist()
        self._give(name, rows, "INSERT INTO {t} (ts, id, k, g, v) SELECT * FROM given")

    def _give(self, name: str, rows: Sequence[dict[str, object]], statement: str) -> None:
        """Run a statement over rows, which it knows as ``given``."""
        frame = frame_of(self._session, pa.Table.from_pylist([*rows], self.schema))
        frame.createOrReplaceTempView("given")
        star = "ts = s.ts, id = s.id, k = s.k, g = s.g, v = s.v"
        named = "INSERT (ts, id, k, g, v) VALUES (s.ts, s.id, s.k, s.g, s.v)"
        self.sql(name, statement.replace("UPDATE SET *", f"UPDATE SET {star}").replace("INSERT *", named))

    def sql(self, name: str, *statements: str) -> None:
        """Run statements over a table, which is ``{t}`` there."""
        for statement in statements:
            self.query(name, statement)

    def query(self, name: str, statement: str) -> pa.Table:
        """Return the rows of a statement over a table, which is ``{t}`` there."""
        return self._session.sql(statement.replace("{t}", f"delta.`{self.folder / name}`")).toArrow()

    def rows_of(self, name: str) -> pa.Table:
        """Return a table's rows, read by Spark."""
        return self.query(name, "SELECT ts, id, k, g, v FROM {t}")

    @property
    def _session(self) -> SparkSession:
        return owner()


_owner: list[Any] = []


def owner() -> SparkSession:
    """Return the session that others write in, of the Spark that lakestream's is of."""
    if not _owner:
        quick = {**INTERPRETED, **FEW_TABLES}
        given = spark_session(Settings(master="local[1]", driver_memory="2g", spark_conf=quick))
        _owner.append(child_session(given, {"spark.sql.runSQLOnFiles": "true"}))
    found: SparkSession = _owner[0]
    return found


def main() -> int:
    """Run histories of drawn views over tables that Spark writes."""
    seen: Counter[str] = Counter()

    def found(seed: str, spark: bool) -> list[str]:  # noqa: ARG001 - Spark is there
        return History(seed, spark=True, seen=seen, worlds=BySpark).differences()

    status = run_histories("python -m tests.properties.by_spark", "check all queries by Spark", found)
    sys.stdout.writelines(f"{count} {what}\n" for what, count in seen.most_common())
    return status


if __name__ == "__main__":
    sys.exit(main())
