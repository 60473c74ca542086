"""SELECT over the lake's tables: Spark SQL with TDengine's functions and clauses, and versions of tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import Relation, compile_query
from lakestream.engine.base.names import Names, visible_columns
from lakestream.engine.base.refused import failed, java_errors, refuse_unknown, refused, spark_errors
from lakestream.engine.planning.planner import table_size
from lakestream.engine.reading.transport import ArrowTransport
from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.allowed import foreign_calls
from lakestream.language.common.source import place_of
from lakestream.language.expressions.parsing import parse_query
from lakestream.language.quoting import quoted
from lakestream.observation.information import INFORMATION_SCHEMA
from lakestream.observation.observe import newest_rows
from lakestream.observation.windows import without_windows
from lakestream.storage.columns.types import holds_variant, types_of
from lakestream.storage.delta import capabilities, read_spark
from lakestream.storage.rows.views import view_of
from lakestream.storage.sessions.plans import refuse_calls, refuse_plan
from lakestream.storage.sessions.session import check_error
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.compute.windows.calculation import Calculation
    from lakestream.language.expressions.versions import AsOf
    from lakestream.language.model import Fragment
    from lakestream.statements.workspace import Workspace
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import StreamRecord

_VIEWS = "ls_query_"


@dataclass(frozen=True)
class Reader:
    """What queries read: the lake's tables from a current database, and ``information_schema``.

    Tables up to ``small_bytes`` travel as Arrow; ``system`` gives the tables of ``information_schema`` by
    name; ``zone`` is the lake's time zone, ``now_us`` what NOW is; ``brings_functions`` tells whether Spark
    may have functions of others; ``limit`` is how many rows are wanted, None for all.
    """

    spark: SparkSession
    catalog: Catalog
    database: str
    small_bytes: int
    zone: str
    now_us: int
    system: Callable[[SparkSession, str], DataFrame]
    brings_functions: Callable[[], bool]
    limit: int | None

    def frame(self, fragment: Fragment) -> DataFrame:
        """Return a query as a DataFrame, not computed yet.

        Raises StatementError TABLE_NOT_FOUND, VERSION_NOT_FOUND, those of TDengine's clauses, or
        QUERY_INVALID with what Spark says of it.
        """
        named, query = _Named(self), None
        try:
            query = self._compiled(fragment, named)
            for read in query.reads:
                frame = named.system.get(read.relation.key)
                if frame is None:
                    frame = self._rows(named.tables[read.relation.key], read.relation)
                view_of(frame, read.view)
            return self._analysed(fragment, query)
        except (StatementError, NotExactError):
            # What is misspelt comes first; Spark would say it too, which takes seconds to start.
            self._refuse_unknown(fragment, query, named.columns)
            raise

    def explained(self, fragment: Fragment) -> list[tuple[str, str]]:
        """Return (stage, what) of a query: what is read, and the SQL of Spark that it is.

        Raises what :meth:`frame` raises of names.
        """
        named, query = _Named(self), None
        try:
            query = self._compiled(fragment, named)
        finally:
            self._refuse_unknown(fragment, query, named.columns)
        read = sorted({self._said(named, one.relation) for one in query.reads})
        return [*(("read", said) for said in read), ("query", query.query.sql("spark"))]

    def _said(self, named: _Named, relation: Relation) -> str:
        """Say which version of a table is read, and how large it is."""
        if relation.key in named.system:
            return relation.key
        info = named.tables[relation.key]
        table = self.catalog.handles.latest(info.path)
        version = table.version if relation.version is None else relation.version
        size = table_size(table, version)
        return f"{info.full_name}, version {version} (rows: {size.rows:,}, bytes: {size.bytes:,})"

    def _compiled(self, fragment: Fragment, named: _Named) -> Calculation:
        return compile_query(fragment, named.relation, self.zone, now_us=self.now_us, views=_VIEWS)

    def _refuse_unknown(
        self, fragment: Fragment, query: Calculation | None, columns: Mapping[tuple[str, str], set[str]]
    ) -> None:
        refuse_unknown(
            "QUERY_INVALID",
            "the query",
            fragment,
            query,
            lambda table: columns.get((table.db.lower(), table.name.lower())),
            functions=not self.brings_functions(),
        )

    def _rows(self, info: TableInfo, relation: Relation) -> DataFrame:
        return table_frame(
            self.spark,
            self.catalog,
            info,
            self.small_bytes,
            columns=relation.columns,
            version=relation.version,
        )

    def _analysed(self, fragment: Fragment, query: Calculation) -> DataFrame:
        if self.limit is not None:
            _limit(query.query, self.limit)
        sql = query.query.sql("spark")
        try:
            frame = self.spark.sql(sql)
            refuse_calls(self.spark, _foreign_names(fragment))
        except java_errors() as error:
            check_error(error)
            if not isinstance(error, spark_errors()):
                raise failed("QUERY_INVALID", "the query", fragment, error) or error from None
            columns = {name for read in query.reads for name in read.relation.columns}
            raise refused("QUERY_INVALID", "the query", fragment, error, columns=columns) from None
        refuse_plan(frame, sql)
        return frame


class _Named:
    """The tables that a query names, with their columns, as they are found."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._names = Names(reader.catalog, reader.database, zone=reader.zone)
        self.tables = self._names.tables
        self.system: dict[str, DataFrame] = {}
        self.columns: dict[tuple[str, str], set[str]] = {}

    def relation(self, database: str | None, name: str, version: AsOf | None) -> Relation:
        """Return what a query sees under a name; raises as :meth:`Names.relation`."""
        found = self._found(database, name, version)
        self.columns.setdefault(((database or "").lower(), name.lower()), set()).update(found.columns)
        return found

    def _found(self, database: str | None, name: str, version: AsOf | None) -> Relation:
        if (database or "").lower() != INFORMATION_SCHEMA:
            return self._names.relation(database, name, version)
        if version is not None:
            raise NotSupportedError(f"a version of {INFORMATION_SCHEMA}")
        key = f"{INFORMATION_SCHEMA}.{name.lower()}"
        frame = self.system.setdefault(key, self._reader.system(self._reader.spark, name))
        return Relation(key, tuple(frame.columns), "")


def _limit(query: exp.Query, most: int) -> None:
    """Have a query give no more rows than are wanted: what computes it holds all that it gives.

    A limit of its own that is no number stays, and may be a larger one.
    """
    own = query.args.get("limit")
    if own is None or (
        isinstance(own, exp.Limit) and own.expression.is_int and own.expression.to_py() > most
    ):
        query.set("limit", exp.Limit(expression=exp.Literal.number(most)))


def _foreign_names(fragment: Fragment) -> Iterator[str]:
    for name, _ in foreign_calls(parse_query(fragment)):
        yield name


_MONTHS = ("interval year", "interval month", "interval year to month")
_MIXED = "interval"
"""Types of intervals that Arrow has no form for, by Spark's names: of months, and of months and seconds."""


def _without_months(frame: DataFrame) -> DataFrame:
    """Return a frame whose intervals that have months in them are texts, as ``1 years 2 months``."""
    if not {_MIXED, *_MONTHS}.intersection(types_of(frame).values()):
        return frame
    names = [f"c{at}" for at in range(len(frame.columns))]
    kinds = (field.dataType.simpleString() for field in frame.schema)
    told = [_told(name, kind) for name, kind in zip(names, kinds, strict=True)]
    return frame.toDF(*names).selectExpr(*told).toDF(*frame.columns)


def _told(name: str, kind: str) -> str:
    """Return a column of a type of Spark's as it is told."""
    if kind in _MONTHS:
        whole = f"CAST({name} AS INTERVAL YEAR TO MONTH)"
        name = f"make_interval(extract(YEAR FROM {whole}), extract(MONTH FROM {whole}))"
    return f"CAST({name} AS STRING)" if kind in (_MIXED, *_MONTHS) else name


def computed(frame: DataFrame, fragment: Fragment) -> pa.Table:
    """Return the rows of a query.

    Raises StatementError QUERY_INVALID with what Spark says where a value cannot be computed, and
    NOT_SUPPORTED for a VARIANT among the columns.
    """
    with _refusing(fragment):
        return _told_rows(frame, fragment).toArrow()


def in_parts(frame: DataFrame, fragment: Fragment) -> pa.RecordBatchReader:
    """Return the rows of a query of Spark, which are computed while they are read.

    Raises what :func:`computed` raises, the first part of it at once.
    """
    import pyarrow as pa

    from lakestream.storage.rows.parts import arrow_reader

    with _refusing(fragment):
        reader = arrow_reader(_told_rows(frame, fragment))

    def read() -> Iterator[pa.RecordBatch]:
        with _refusing(fragment):
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, read())


def _told_rows(frame: DataFrame, fragment: Fragment) -> DataFrame:
    for name, kind in types_of(frame).items():
        if holds_variant(kind):
            raise NotSupportedError(
                f"the VARIANT {name} in a result",
                hint=f"its text: to_json({quoted(name)})",
                place=place_of(fragment),
            )
    return _without_months(frame)


@contextmanager
def _refusing(fragment: Fragment) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        if "null type" not in str(error):
            raise
        raise NotSupportedError(
            "an empty array or map of no type in a result",
            hint="give it one: CAST(array() AS ARRAY<INT>)",
            place=place_of(fragment),
        ) from None
    except java_errors() as error:
        check_error(error)
        failure = failed("QUERY_INVALID", "the query", fragment, error)
        if failure is None and isinstance(error, spark_errors()):
            failure = refused("QUERY_INVALID", "the query", fragment, error)
        raise failure or error from None


_MOST_BYTES = 64 * 1024**2
"""Size of the files that a look at the newest rows reads without Spark."""


def newest_results(at: Workspace, record: StreamRecord, limit: int, *, windows: bool) -> pa.Table:
    """Return the newest rows of a stream's output, newest first; ``windows``: the window of each too.

    Raises StatementError TABLE_NOT_FOUND.
    """
    info = at.catalog.find_table(*record.output.split(".", 1))
    if info is None:
        name = f"{record.database}.{record.name}"
        raise StatementError("TABLE_NOT_FOUND", f"the output {record.output} of {name} is gone")
    table = at.catalog.handles.latest(info.path)
    rows = newest_rows(table, info, limit, _MOST_BYTES, windows=windows)
    if rows is not None:
        return rows
    frame = table_frame(at.session, at.catalog, info, at.settings.small_bytes)
    if info.time_column:
        frame = frame.orderBy(frame[info.time_column].desc())
    rows = frame.limit(limit).toArrow()
    return without_windows(rows) if windows else rows


def table_frame(
    spark: SparkSession,
    catalog: Catalog,
    info: TableInfo,
    small_bytes: int,
    *,
    columns: tuple[str, ...] | None = None,
    version: int | None = None,
) -> DataFrame:
    """Return a table at a version, by default the latest, without the provenance columns of outputs."""
    table = catalog.handles.latest(info.path)
    columns = visible_columns(info) if columns is None else columns
    version = table.version if version is None else version
    if capabilities(table).arrow_reads and table_size(table, version).bytes <= small_bytes:
        transport = ArrowTransport(spark, catalog.handles)
        return transport.rows(info.path, version, columns, info.time_column, [(None, None)])
    if isinstance(spark, SmallSession):
        raise NotExactError(f"{info.name} is larger than small_bytes, or Spark alone reads it", always=False)
    return read_spark(spark, table, version, columns=columns)
