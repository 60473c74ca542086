"""Delta tables as others make and change them, by Spark: one maker for each feature of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.storage.sessions.session import child_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FEED = "delta.enableChangeDataFeed"
FREE = {
    "spark.sql.runSQLOnFiles": "true",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Checkpoints of several parts, also of a few files.
    "spark.databricks.delta.checkpoint.partSize": "2",
    # Collations are there for readers of tables that other products wrote.
    "spark.databricks.delta.schema.typeCheck.enabled": "false",
}


class Owner:
    """Whoever writes a table past lakestream, by SQL in which the table is ``{t}``."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._session = child_session(spark, FREE)
        self._path = path

    def sql(self, *statements: str) -> None:
        """Run statements one after the other."""
        for statement in statements:
            self.query(statement)

    def forget(self) -> None:
        """Delete the commits before the newest checkpoint, as the clean-up of a log does."""
        log = self._path / "_delta_log"
        newest = max(int(file.name[:20]) for file in log.glob("*.checkpoint*.parquet"))
        for file in log.glob("*.json"):
            if file.name[:20].isdigit() and int(file.name[:20]) < newest:
                file.unlink()

    def query(self, text: str) -> DataFrame:
        """Return what a statement gives; ``{origin}`` is another table of theirs, ``{path}`` its path."""
        return self._session.sql(
            text.replace("{t}", f"delta.`{self._path}`")
            .replace("{origin}", f"delta.`{self._path}_origin`")
            .replace("{path}", str(self._path))
        )


def rows(*given: str) -> str:
    """Return a query of rows (at, site, v), given as SQL of (second, site, v)."""
    at = "timestamp_micros(unix_micros(TIMESTAMP '2025-01-01 00:00:00Z') + second * 1000000L)"
    listed = ", ".join(f"({row})" for row in given)
    return f"SELECT {at} AS at, site, v FROM VALUES {listed} AS r (second, site, v)"


FIRST = ("1, 'a', 1", "2, 'b', 2", "5, 'a', 3", "12, 'a', 4", "13, 'b', 5", "14, NULL, 6", "25, 'b', 7")
SECOND = ("3, 'a', 10", "23, 'a', 11", "27, NULL, 12", "36, 'b', 13")
MERGED = ("1, 'a', 100", "5, 'a', 0", "41, 'a', 7")
THIRD = ("4, 'b', 20", "53, 'a', 21", "54, 'b', 22")
CREATED = "CREATE TABLE {t} ($columns) USING delta $layout TBLPROPERTIES ($properties)"
MERGE = (
    "MERGE INTO {t} t USING ($rows) s ON t.at = s.at AND t.site <=> s.site "
    "WHEN MATCHED AND s.v = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT (at, site, v) VALUES (s.at, s.site, s.v)"
)


@dataclass(frozen=True)
class Maker:
    """A table of (at, site, v) with a feature, and what its owner does to it at the end.

    ``at``, ``site`` and ``v`` are the columns as declared, ``sites`` SQL of a site of the rows' ``{0}``,
    ``more`` SQL of further columns of rows by their names; ``create`` are the statements before the first
    rows; ``begins_late`` says that its log begins at a checkpoint. ``groups`` and ``use`` are what the stream
    groups by and computes. ``refused`` is the code that a stream from it is refused with.
    """

    at: str = "at TIMESTAMP"
    site: str = "site STRING"
    v: str = "v INT"
    columns: str = ""
    layout: str = ""
    properties: str = ""
    create: tuple[str, ...] = (CREATED,)
    sites: str = "{0}"
    more: str = ""
    merge: str = MERGE
    after: tuple[str, ...] = ()
    groups: str = "site"
    use: str = "max(v)"
    begins_late: bool = False
    refused: str = ""

    def statements(self) -> list[str]:
        """Return how the table is made, with its first rows."""
        declared = ", ".join(filter(None, (self.at, self.site, self.v, self.columns)))
        properties = ", ".join(filter(None, (f"{FEED} = true", self.properties)))
        made = [
            one.replace("$columns", declared)
            .replace("$layout", self.layout)
            .replace("$properties", properties)
            for one in self.create
        ]
        return [*made, self.insert(*FIRST)]

    def insert(self, *given: str) -> str:
        """Return how its owner appends rows."""
        values = ", ".join(f"{sql} AS {name}" for name, sql in self._more.items())
        names = ", ".join(("at", "site", "v", *self._more))
        listed = f"SELECT *{', ' if values else ''}{values} FROM ({self._rows(*given)})"
        return f"INSERT INTO {{t}} ({names}) {listed}"

    def merged(self) -> str:
        """Return how its owner updates, deletes and inserts rows by one MERGE."""
        return self.merge.replace("$rows", self._rows(*MERGED))

    def _rows(self, *given: str) -> str:
        return f"SELECT at, {self.sites.format('site')} AS site, v FROM ({rows(*given)})"

    @property
    def _more(self) -> dict[str, str]:
        pairs = (one.partition("=") for one in self.more.split(";") if one)
        return {name: sql for name, _, sql in pairs}


RENAMED = (
    CREATED,
    "ALTER TABLE {t} RENAME COLUMN v TO was",
    "ALTER TABLE {t} RENAME COLUMN old TO v",
    "ALTER TABLE {t} DROP COLUMN gone",
)
CLONED = (
    CREATED.replace("{t}", "{origin}"),
    f"INSERT INTO {{origin}} (at, site, v) {rows('0, NULL, 9', '8, NULL, 8')}",
    f"CREATE TABLE {{t}} SHALLOW CLONE {{origin}} TBLPROPERTIES ({FEED} = true)",
)
NUMBERS = "CASE {0} WHEN 'a' THEN double('NaN') WHEN 'b' THEN double('-Infinity') END"
ODD = "CASE {0} WHEN 'a' THEN 'x/y=%20 ''ü`' ELSE {0} END"
VECTORS = "delta.enableDeletionVectors = true"
MAPPING = "delta.columnMapping.mode = "
NO_MERGE = "DELETE FROM {t} WHERE v = 3"
EVOLVING = (
    "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT *, 5 AS evolved FROM ($rows)) s "
    "ON t.at = s.at AND t.site <=> s.site WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
).replace("$rows", rows("13, 'b', 77", "61, 'b', 3", "62, 'a', 4"))
REPLACE = (
    "CREATE OR REPLACE TABLE replaced (at TIMESTAMP, site STRING, v INT, fresh INT) USING delta "
    f"LOCATION '{{path}}' TBLPROPERTIES ({FEED} = true)"
)
REPLACED = (
    "CREATE TABLE replaced USING delta LOCATION '{path}'",  # by its path no other columns are taken
    REPLACE,
    f"INSERT INTO {{t}} (at, site, v) {rows(*SECOND, *THIRD)}",
    "DROP TABLE replaced",
)

MAKERS = {
    "vectors": Maker(properties=VECTORS),
    "by_group": Maker(layout="PARTITIONED BY (site)"),
    "by_day": Maker(
        columns="day DATE GENERATED ALWAYS AS (CAST(at AS DATE))",
        layout="PARTITIONED BY (day)",
        use="max(day)",
    ),
    "vectors_restored": Maker(properties=VECTORS, after=("RESTORE TABLE {t} TO VERSION AS OF 2",)),
    "by_several": Maker(
        columns="day DATE, n INT",
        layout="PARTITIONED BY (day, site, n)",
        more="day=CAST(at AS DATE);n=v % 2",
        groups="site, day",
    ),
    "by_time": Maker(layout="PARTITIONED BY (at)"),
    "mapping_by_name": Maker(columns="old INT, gone INT", properties=MAPPING + "'name'", create=RENAMED),
    "mapping_by_id": Maker(columns="old INT, gone INT", properties=MAPPING + "'id'", create=RENAMED),
    "mapping_later": Maker(
        columns="w INT, x INT",
        after=(
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPING}'name')",
            "ALTER TABLE {t} RENAME COLUMN w TO n",
            "ALTER TABLE {t} DROP COLUMN x",
        ),
    ),
    "mapping_and_vectors": Maker(layout="PARTITIONED BY (site)", properties=f"{MAPPING}'name', {VECTORS}"),
    "widened": Maker(
        v="v SMALLINT",
        properties="delta.enableTypeWidening = true",
        create=(CREATED, "ALTER TABLE {t} ALTER COLUMN v TYPE INT"),
    ),
    "widened_later": Maker(
        columns="w SMALLINT",
        properties="delta.enableTypeWidening = true",
        after=("ALTER TABLE {t} ALTER COLUMN w TYPE INT",),
    ),
    "row_tracking": Maker(properties="delta.enableRowTracking = true"),
    "clustered": Maker(layout="CLUSTER BY (site, at)"),
    "v2_checkpoints": Maker(properties="delta.checkpointPolicy = 'v2', delta.checkpointInterval = 2"),
    "checkpoints": Maker(
        properties="delta.checkpointInterval = 1, delta.checkpoint.writeStatsAsJson = false, "
        "delta.checkpoint.writeStatsAsStruct = true"
    ),
    "log_begins_late": Maker(properties="delta.checkpointInterval = 1", begins_late=True),
    "vacuum_check": Maker(properties="delta.feature.vacuumProtocolCheck = 'supported'"),
    "commit_times": Maker(properties="delta.enableInCommitTimestamps = true"),
    "checked": Maker(create=(CREATED, "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (v >= 0)")),
    "not_null": Maker(at="at TIMESTAMP NOT NULL", v="v INT NOT NULL"),
    "generated": Maker(columns="g INT GENERATED ALWAYS AS (v * 2)", use="sum(g)"),
    "identity": Maker(columns="i BIGINT GENERATED ALWAYS AS IDENTITY", use="min(i)"),
    "identity_or_given": Maker(columns="i BIGINT GENERATED BY DEFAULT AS IDENTITY", use="max(i)"),
    "default": Maker(
        columns="d INT DEFAULT 7", properties="delta.feature.allowColumnDefaults = 'supported'", use="sum(d)"
    ),
    "variant_unused": Maker(columns="j VARIANT", more="j=parse_json('[1]')"),
    "variant_used": Maker(
        columns="j VARIANT",
        more="j=parse_json('{\"x\": 1}')",
        use="max(variant_get(j, '$.x', 'int'))",
        refused="NOT_SUPPORTED",
    ),
    "without_zone": Maker(at="at TIMESTAMP_NTZ"),
    "decimals": Maker(
        columns="p DECIMAL(38,18)", more="p=v / 3BD", groups="site, p IS NULL AS none", use="sum(p)"
    ),
    "decimal_group": Maker(columns="p DECIMAL(38,18)", more="p=0.5", groups="p", use="max_by(p, at)"),
    "binary": Maker(site="site BINARY", sites="CAST({0} AS BINARY)"),
    "char": Maker(site="site CHAR(3)", merge=NO_MERGE),  # Spark merges into no such table by its path
    "varchar": Maker(site="site VARCHAR(3)"),
    "void": Maker(columns="z VOID, s STRUCT<a: INT, b: VOID>"),
    "collated": Maker(
        columns="note STRING COLLATE UNICODE_CI", more="note='é'", use="max(note)", refused="NOT_SUPPORTED"
    ),
    "collated_unused": Maker(columns="note STRING COLLATE UNICODE_CI", more="note='é'"),
    "collated_group": Maker(
        site="site STRING COLLATE UTF8_LCASE", sites="{0} COLLATE UTF8_LCASE", refused="NOT_SUPPORTED"
    ),
    "no_times": Maker(after=("INSERT INTO {t} (site, v) VALUES ('a', 5), (NULL, 6)", NO_MERGE)),
    "numbers": Maker(site="site DOUBLE", sites=NUMBERS),
    "number_folders": Maker(site="site DOUBLE", sites=NUMBERS, layout="PARTITIONED BY (site)"),
    "odd_folders": Maker(sites=ODD, layout="PARTITIONED BY (site)"),
    "feed_late": Maker(
        create=(
            f"CREATE TABLE {{t}} ($columns) USING delta TBLPROPERTIES ({FEED} = false)",
            f"INSERT INTO {{t}} (at, site, v) {rows('0, NULL, 9')}",
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEED} = true)",
        )
    ),
    "few_statistics": Maker(properties="delta.dataSkippingNumIndexedCols = 0"),
    "ordered": Maker(after=("OPTIMIZE {t} ZORDER BY (site)", "VACUUM {t} RETAIN 0 HOURS")),
    "restored": Maker(after=("RESTORE TABLE {t} TO VERSION AS OF 2",)),
    "evolved": Maker(after=(EVOLVING,)),
    "clone": Maker(create=CLONED),
    "clone_in_folders": Maker(create=CLONED, layout="PARTITIONED BY (site)"),
    "clone_with_vectors": Maker(create=CLONED, properties=VECTORS),
    "upper": Maker(site="Site STRING", at="AT TIMESTAMP", groups="Site"),
    "year_one": Maker(
        create=(CREATED, "INSERT INTO {t} (at, site, v) VALUES (TIMESTAMP '0001-01-01 00:00:00Z', 'a', 5)"),
    ),
    "year_9999": Maker(
        columns="until TIMESTAMP", more="until=IF(v % 2 = 0, TIMESTAMP '9999-12-31', NULL)", use="max(until)"
    ),
}
