"""SELECT over the lake's tables: Spark SQL, with every table read at its latest version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.engine.information import INFORMATION_SCHEMA
from lakestream.engine.names import Names, visible_columns
from lakestream.engine.planner import table_size
from lakestream.engine.refused import refused
from lakestream.engine.stream import quoted, text
from lakestream.engine.transport import ArrowTransport
from lakestream.errors import LakestreamError, NotSupportedError
from lakestream.language.expressions import parse_query, place_in
from lakestream.storage.delta import capabilities, read_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from lakestream.language.model import Fragment
    from lakestream.storage.catalog import Catalog, TableInfo


def query_frame(
    spark: SparkSession,
    catalog: Catalog,
    fragment: Fragment,
    database: str,
    small_bytes: int,
    system: Callable[[SparkSession, str], DataFrame],
) -> DataFrame:
    """Return a query over the lake's tables as a DataFrame; tables up to ``small_bytes`` travel as Arrow.

    ``system`` gives the tables of ``information_schema`` by name. Raises StatementError TABLE_NOT_FOUND,
    NOT_SUPPORTED for TDengine's windows and slices, or QUERY_INVALID with what Spark says of it.
    """
    query = parse_query(fragment)
    _refuse_windows(fragment, query)
    names = Names(catalog, database)
    columns: set[str] = set()
    common = {cte.alias_or_name.lower() for cte in query.find_all(exp.CTE)}
    for number, table in enumerate(list(query.find_all(exp.Table))):
        if not table.db and table.name.lower() in common:
            continue
        view = f"ls_query_{number}"
        try:
            if table.db.lower() == INFORMATION_SCHEMA:
                system(spark, table.name).createOrReplaceTempView(view)
                _put(table, f"SELECT * FROM {view}")
                continue
            info, only = names.find(table.db or database, table.name)
        except LakestreamError as error:
            raise error.at(place_in(fragment, table)) from None
        table_frame(spark, catalog, info, small_bytes).createOrReplaceTempView(view)
        _replace(table, view, info, only)
        columns.update(visible_columns(info))
    try:
        return spark.sql(query.sql("spark"))
    except _spark_error() as error:
        raise refused("QUERY_INVALID", "the query", fragment, error, columns=columns) from None


def _refuse_windows(fragment: Fragment, query: exp.Query) -> None:
    """Only calculations of streams are rewritten; Spark would never see the window or the slices."""
    for select in query.find_all(exp.Select):
        for name, clause in (("inner_interval", "INTERVAL"), ("inner_partition", "PARTITION BY")):
            if select.meta.get(name):
                raise NotSupportedError(
                    f"{clause} in a query outside a stream", hint="GROUP BY", place=place_in(fragment, select)
                )


def table_frame(spark: SparkSession, catalog: Catalog, info: TableInfo, small_bytes: int) -> DataFrame:
    """Return a table at its latest version, without the provenance columns of outputs."""
    table = catalog.handles.latest(info.path)
    columns = visible_columns(info)
    if capabilities(table).arrow_reads and table_size(table, table.version).bytes <= small_bytes:
        transport = ArrowTransport(spark, catalog.handles)
        return transport.rows(info.path, table.version, columns, info.time_column, [(None, None)])
    return read_spark(spark, info.path, table.version, columns=columns)


def _replace(table: exp.Table, view: str, info: TableInfo, only: str | None) -> None:
    """Put the view in the table's place; a subtable's name stands for its rows."""
    columns = ", ".join(quoted(name) for name in visible_columns(info))
    where = "" if only is None else f" WHERE tbname = {text(only)}"
    _put(table, f"SELECT {columns} FROM {view}{where}")


def _put(table: exp.Table, body: str) -> None:
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
    subquery = exp.Subquery(this=exp.Var(this=body), alias=alias)
    for name in ("joins", "laterals", "sample", "pivots"):
        if table.args.get(name):
            subquery.set(name, table.args[name])
    table.replace(subquery)


def _spark_error() -> type[Exception]:
    from pyspark.errors import PySparkException

    return PySparkException
