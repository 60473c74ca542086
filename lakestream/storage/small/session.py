"""A session that answers Spark's SQL in this process, with the face of Spark's own."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from lakestream.errors import BusyError
from lakestream.language.quoting import delta_name
from lakestream.storage.places.scratch import scratch_folder
from lakestream.storage.small.exact import NotExactError, NotThereError
from lakestream.storage.small.macros import TYPES, Macros
from lakestream.storage.small.rewritten import rewritten
from lakestream.storage.tables.table import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from lakestream.storage.small.typed.scopes import Columns

    _Key = tuple[str, pa.Schema, int]

_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "error_on_division_by_zero": False,
}
# It would have a relation in its place, which is made, described and asked anew for each answer.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)
_MOST_PREPARED = 2_000
_PIECE_ROWS = 32_768
"""Rows that are handed over at once, and that one thread of DuckDB goes over."""
_ROW_BYTES = 128
"""What a row of an answer is taken to need, in DuckDB and as Arrow."""
_SPARING = 32 << 20
"""Bytes that each thread may take for sums, however few rows there are."""
_MET = re.compile(
    r"CAST\('([^']+)' AS VARCHAR\) IN \((CAST\('[^']*' AS VARCHAR\), )*CAST\('\1' AS VARCHAR\)"
    rf"(, CAST\('[^']*' AS VARCHAR\))*\)+ THEN \(CAST\(ls_fail\('{TYPES}"
)
"""A check of a type that is met, where plans show it as it is written: in conditions on groups."""
_MADE = re.compile(r"\bnull as (decimal|float)\b", re.IGNORECASE)
"""A column of a type that is only passed on, which nothing is in."""
_ENDED = re.compile(
    r"\AQuery interrupted\Z|Python exception occurred while executing the UDF: KeyboardInterrupt"
)
"""What DuckDB makes of a KeyboardInterrupt, which comes while it computes."""


@dataclass(frozen=True)
class Room:
    """What DuckDB may take: threads, bytes of memory, and with ``spills`` files for what is beyond these.

    ``inlines``: many rows are asked about, so that a view is computed only within what looks at it, of which
    that needs some columns and rows. An answer has at most so many ``rows``: DuckDB keeps them beside its
    memory, whole.
    """

    threads: int = 1
    memory: int = 1_000_000_000
    spills: bool = False
    inlines: bool = False
    rows: int = 1_000_000_000 // _ROW_BYTES


FEW_ROWS = Room()
"""For few rows: what takes more is for others, which write files."""


def large_room(memory: int) -> Room:
    """Return the room for many rows: all cores, so many bytes, and files beyond these."""
    memory = max(memory, FEW_ROWS.memory)
    return Room(os.cpu_count() or 1, memory, spills=True, inlines=True, rows=memory // _ROW_BYTES)


@cache
def _database(room: Room) -> Macros:
    """Return the database of this process with such room: in memory, it reads no file and loads nothing."""
    import duckdb

    folder = tempfile.mkdtemp(prefix="duckdb-", dir=scratch_folder()) if room.spills else ""
    configuration = {
        **_CONFIGURATION,
        "threads": room.threads,
        "memory_limit": f"{room.memory}B",
        "temp_directory": folder,
    }
    if room.spills:
        # They give back what queries have left, which stays with the process otherwise.
        configuration["allocator_background_threads"] = True
        configuration["allocator_flush_threshold"] = "8MB"
        configuration["allocator_bulk_deallocation_flush_threshold"] = "8MB"
    return Macros(duckdb.connect(config=configuration))


class _Relation:
    """What a prepared query reads under a name: whichever rows are there when it runs."""

    def __init__(self, name: str, rows: pa.Table) -> None:
        self.name = name
        self.rows = rows

    def __arrow_c_schema__(self) -> object:
        return self.rows.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)

    def empty(self) -> None:
        """Let go of the rows."""
        self.rows = self.rows.schema.empty_table()


@dataclass
class _Prepared:
    """A query that DuckDB has planned, and the columns that Spark gives; None until it has run."""

    name: str
    schema: pa.Schema | None = None


class SmallSession:
    """Views are Arrow tables; a query is answered at once. For one thread at a time.

    To plan a query takes DuckDB longer than to run it over a few rows: each is planned once, over relations
    that stay while their rows change. Raises NotExactError for whatever DuckDB does not, or may not, answer
    as Spark does: whoever asked then asks Spark.
    """

    def __init__(self, room: Room = FEW_ROWS) -> None:
        self.room = room
        self._relations: dict[_Key, _Relation] = {}
        self._views: dict[str, str] = {}
        self._held: dict[str, list[_Relation]] = {}
        self._columns: dict[str, Columns | None] = {}
        self._prepared: OrderedDict[str, _Prepared] = OrderedDict()
        self._number = count()

    @cached_property
    def connection(self) -> DuckDBPyConnection:
        """A connection to the process's database: views and prepared queries are its own."""
        connection = _database(self.room).connection.cursor()
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def sql(self, text: str) -> SmallFrame:
        """Return the rows of a query in Spark's SQL; raises NotExactError."""
        return self.query(text, self._views)

    def query(self, text: str, views: Mapping[str, str]) -> SmallFrame:
        """Return the rows of a query over relations, which are given as SQL of DuckDB."""
        sql, passed = self._said_in_duckdb(text, views)
        return SmallFrame(self, sql, None if self.room.inlines else self.answered(sql, passed=passed), passed)

    def _said_in_duckdb(self, text: str, views: Mapping[str, str]) -> tuple[str, Columns | None]:
        """Return a query for DuckDB, and its columns where some may be only passed on."""
        written = text.lower()
        columns = [(name, self._columns.get(name)) for name in sorted(views) if name.lower() in written]
        if not (any(_are_passed(one) for _, one in columns) or _MADE.search(text)):
            return rewritten(text, tuple(columns), many=self.room.inlines).over(views), None
        from lakestream.storage.small.typed.passing import passed_on

        looked = passed_on(text, tuple(columns))
        return rewritten(looked.text, many=self.room.inlines, decimals=True).over(views), looked.columns

    def frame(self, rows: pa.Table) -> SmallFrame:
        """Return Arrow rows as a frame; raises NotExactError for types that are not on the list."""
        _columns_of(rows.schema)
        return SmallFrame(self, "", rows)

    def register(self, name: str, rows: pa.Table | str, columns: Columns | None = None) -> None:
        """Register rows, or the query of DuckDB that gives them, under a name, in place of what had it."""
        self._views[name] = self.said(name, rows, columns)

    def said(self, name: str, rows: pa.Table | str, columns: Columns | None = None) -> str:
        """Return how queries of DuckDB say rows, which are there until :meth:`clear`, or a query.

        Where views are not computed at once, the rows before them of this name stay for those that say them.
        ``columns`` are those of a query, None where none is only to be passed on.
        """
        if isinstance(rows, str):
            self._columns[name] = columns
            return f"({rows})"
        self._columns[name] = _columns_of(rows.schema)
        held = self._held.setdefault(name, [])
        key = (name, rows.schema, len(held) if self.room.inlines else 0)
        relation = self._relations.get(key)
        if relation is None:
            relation = self._relations[key] = _Relation(f"{name}_{next(self._number)}", rows)
            self.connection.register(relation.name, relation)
        relation.rows = rows
        held.append(relation)
        return delta_name(relation.name)

    def share(self, relations: Mapping[_Key, _Relation]) -> None:
        """Have queries find the relations of another session, with what these hold at the time."""
        for key in relations.keys() - self._relations.keys():
            self._relations[key] = relations[key]
            self.connection.register(relations[key].name, relations[key])

    def drop(self, *names: str) -> None:
        """Let go of views, and of the rows that they hold: what reads them has been computed."""
        for name in names:
            self._views.pop(name, None)
            self._columns.pop(name, None)
            for relation in self._held.pop(name, ()):
                relation.empty()

    def clear(self) -> None:
        """Let go of all views, and of the rows that they hold."""
        self.drop(*self._views, *self._held)

    def sparing(self, text: str, done: Callable[[], None]) -> pa.Table:
        """Return the rows of a query in Spark's SQL that sums up very many, with files before memory.

        Its sums take no more memory than what it reads; what does not go into files is computed with all the
        memory there is. ``done`` is called when what it reads has been read. Raises NotExactError.
        """
        import duckdb

        is_read = False

        def computed() -> None:
            nonlocal is_read
            is_read = True
            done()

        (sql, passed), frugal = self._said_in_duckdb(text, self._views), self._frugal
        frugal.share(self._relations)
        frugal.limit(sum(held.rows.nbytes for relations in self._held.values() for held in relations))
        try:
            return frugal.answered(sql, computed, passed)
        except NotExactError as why:
            if is_read or not isinstance(why.__cause__, duckdb.OutOfMemoryException):
                raise
        finally:
            frugal.end_threads()
        return self.answered(sql, done, passed)

    @cached_property
    def _frugal(self) -> SmallSession:
        """A session of a database with little memory: others need the one that this is of."""
        return SmallSession(replace(self.room, memory=min(_SPARING * self.room.threads, self.room.memory)))

    def limit(self, memory: int) -> None:
        """Have the database take so many bytes at most, but what it has room for without saying."""
        self.connection.execute(f"SET memory_limit = '{max(memory, self.room.memory)}B'")

    def end_threads(self) -> None:
        """Have the database's threads end and begin anew: each keeps memory of what it has computed."""
        for threads in (1, self.room.threads):
            self.connection.execute(f"SET threads = {threads}")

    def interrupt(self) -> None:
        """Have the query fail that another thread waits for."""
        if "connection" in self.__dict__:
            self.connection.interrupt()
        if "_frugal" in self.__dict__:
            self._frugal.interrupt()

    def close(self) -> None:
        """Give the database's memory back."""
        self.clear()
        self._relations.clear()
        self._prepared.clear()
        if "connection" in self.__dict__:
            self.__dict__.pop("connection").close()
        if "_frugal" in self.__dict__:
            self.__dict__.pop("_frugal").close()

    def answered(
        self, sql: str, done: Callable[[], None] | None = None, passed: Columns | None = None
    ) -> pa.Table:
        """Return the rows of a query of DuckDB; raises NotExactError, BusyError INTERRUPTED.

        ``done`` is called when they are computed, and before they are handed over; ``passed`` are its
        columns, None where none may be DECIMAL or FLOAT.
        """
        import duckdb

        try:
            return self._run(sql, passed, done)
        except duckdb.InterruptException:
            raise BusyError("INTERRUPTED", "the statement was interrupted") from None
        except (duckdb.Error, RuntimeError) as error:
            if _ENDED.search(str(error)):
                raise KeyboardInterrupt from error
            raise _refusal(error) from error

    def _run(self, sql: str, passed: Columns | None, done: Callable[[], None] | None) -> pa.Table:
        if sql not in self._prepared:
            self._prepared[sql] = self._planned(sql)
        self._prepared.move_to_end(sql)
        try:
            return self._few_enough(self._executed(self._prepared[sql], passed, done))
        except BaseException:
            # What it had computed, in memory and in files, would stay with it.
            self._forget(sql)
            raise

    def _few_enough(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows > self.room.rows:
            raise NotExactError(f"more than {self.room.rows:,} rows", always=False)
        return rows

    def _executed(
        self, prepared: _Prepared, passed: Columns | None, done: Callable[[], None] | None
    ) -> pa.Table:
        answer = self.connection.execute(f"EXECUTE {prepared.name}")
        if done is not None:
            done()
        kinds = [str(column[1]) for column in answer.description or ()] if prepared.schema is None else []
        try:
            if self.room.inlines:
                reader: pa.RecordBatchReader = answer.to_arrow_reader(_PIECE_ROWS)
                with closing(reader):
                    return _in_pieces(reader, prepared, kinds, passed)
            rows: pa.Table = answer.to_arrow_table()
            if prepared.schema is None:
                prepared.schema = _schema_of(rows.schema, kinds, passed)
            return rows if rows.schema.equals(prepared.schema) else rows.cast(prepared.schema)
        except ValueError as error:
            raise NotExactError(f"a sum beyond BIGINT: {error}", always=False) from error

    def _planned(self, sql: str) -> _Prepared:
        while len(self._prepared) >= _MOST_PREPARED:
            self._forget(next(iter(self._prepared)))
        _database(self.room).define(sql)
        prepared = _Prepared(f"q{next(self._number)}")
        self.connection.execute(f"PREPARE {prepared.name} AS ({sql}) LIMIT {self.room.rows + 1}")
        # What a macro says of types that are on no list is folded away where they are, even without a row.
        explained = self.connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {prepared.name}")
        if any(TYPES in _MET.sub("", plan) for _, plan in explained.fetchall()):
            self.connection.execute(f"DEALLOCATE {prepared.name}")
            raise NotExactError("types that are not on the list")
        return prepared

    def _forget(self, sql: str) -> None:
        self.connection.execute(f"DEALLOCATE {self._prepared.pop(sql).name}")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what Spark has there
        raise NotThereError(f"SparkSession.{name}")


def _refusal(error: Exception) -> Exception:
    """Return what an error of DuckDB leaves to Spark; another error as it is."""
    import duckdb

    if not isinstance(error, duckdb.Error):
        return error
    of_text = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException)
    return NotExactError(first_line(error), always=isinstance(error, of_text) or TYPES in str(error))


@dataclass(frozen=True)
class _Schema:
    fields: pa.Schema

    def jsonValue(self) -> Any:  # noqa: N802, ANN401 - Spark's name
        """Return the columns as Spark's JSON, which is Delta's."""
        import pyarrow as pa
        from deltalake import Schema

        if any("null" in str(kind).replace("not null", "") for kind in self.fields.types):
            raise NotExactError("a column without a type")
        # Delta takes names for one that differ in their case, or are twice the same.
        numbered = [field.with_name(str(at)) for at, field in enumerate(self.fields)]
        told = json.loads(Schema.from_arrow(pa.schema(numbered)).to_json())
        for field, name in zip(told["fields"], self.fields.names, strict=True):
            field["name"] = name
        return told


class SmallFrame:
    """Rows with as much of a DataFrame's face as ticks use; raises NotExactError for the rest.

    ``sql`` is the query that gives the rows, which are computed when they are looked at first.
    """

    def __init__(
        self, session: SmallSession, sql: str, rows: pa.Table | None = None, passed: Columns | None = None
    ) -> None:
        self.sparkSession = session
        self._sql = sql
        self._passed = passed
        self._known = rows

    @property
    def _rows(self) -> pa.Table:
        if self._known is None:
            self._known = self.sparkSession.answered(self._sql, passed=self._passed)
        return self._known

    @property
    def _said(self) -> pa.Table | str:
        return self._sql if self._known is None else self._known

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._rows.column_names)

    @property
    def schema(self) -> _Schema:
        """The columns' types, as Spark has them."""
        return _Schema(self._rows.schema)

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        """Return the rows."""
        return self._rows

    def count(self) -> int:
        """Return how many rows there are."""
        return int(self._rows.num_rows)

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        """Register the rows under a name."""
        self.sparkSession.register(name, self._said, self._passed)

    def coalesce(self, _partitions: int) -> SmallFrame:
        """Return the frame: it is of one partition."""
        return self

    def select(self, *names: str) -> SmallFrame:
        """Return some columns."""
        return self.selectExpr(*names)

    def selectExpr(self, *items: str) -> SmallFrame:  # noqa: N802 - Spark's name
        """Return expressions over the rows."""
        return self._asked(f"SELECT {', '.join(items)} FROM {_SELF}")  # noqa: S608 - SQL of ours

    def where(self, condition: str) -> SmallFrame:
        """Return the rows for which a condition holds."""
        return self._asked(f"SELECT * FROM {_SELF} WHERE {condition}")  # noqa: S608 - SQL of ours

    def limit(self, count: int) -> SmallFrame:
        """Return the first rows."""
        return SmallFrame(self.sparkSession, "", self._rows.slice(0, count))

    def unionByName(self, other: SmallFrame) -> SmallFrame:  # noqa: N802 - Spark's name
        """Return the rows of both."""
        import pyarrow as pa

        theirs = other.toArrow().select(self.columns).cast(self._rows.schema)
        return SmallFrame(self.sparkSession, "", pa.concat_tables([self._rows, theirs]))

    def _asked(self, sql: str) -> SmallFrame:
        return self.sparkSession.query(sql, {_SELF: self.sparkSession.said(_SELF, self._said, self._passed)})

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what Spark has there
        raise NotThereError(f"DataFrame.{name}")


_SELF = "ls_self"


def _in_pieces(
    reader: pa.RecordBatchReader, prepared: _Prepared, kinds: Sequence[str], passed: Columns | None
) -> pa.Table:
    """Return many rows, of which no more than a piece are here twice.

    What DuckDB gives of a piece stays, all columns, as long as one column does: each is copied.
    """
    import pyarrow as pa

    if prepared.schema is None:
        prepared.schema = _schema_of(reader.schema, kinds, passed)
    memory, pieces = pa.default_cpu_memory_manager(), []
    for batch in reader:
        columns = [
            column.copy_to(memory) if column.type.equals(kind) else column.cast(kind)
            for column, kind in zip(batch.columns, prepared.schema.types, strict=True)
        ]
        pieces.append(pa.RecordBatch.from_arrays(columns, schema=prepared.schema))
    return pa.Table.from_batches(pieces, prepared.schema)


def _schema_of(answer: pa.Schema, kinds: Sequence[str], passed: Columns | None) -> pa.Schema:
    """Return the columns that Spark gives for an answer; raises NotExactError for what it gives otherwise."""
    if len({*answer.names}) < len(answer.names):
        raise NotExactError("columns of one name", always=False)
    schema = as_spark(answer, kinds)
    _check_types(schema, passed)
    return schema


def as_spark(schema: pa.Schema, kinds: Sequence[str]) -> pa.Schema:
    """Return the columns that Spark gives: sums are BIGINT, and items of lists are named as it names them.

    ``kinds`` are DuckDB's types of the columns, which tell its wide integers from decimals.
    """
    import pyarrow as pa

    fields = (
        (field.name, _as_spark(field.type, is_wide="HUGEINT" in kind))
        for field, kind in zip(schema, kinds, strict=True)
    )
    return pa.schema(list(fields))


def _as_spark(kind: pa.DataType, *, is_wide: bool) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _as_spark(kind.value_type, is_wide=is_wide)))
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return pa.struct([(field.name, _as_spark(field.type, is_wide=is_wide)) for field in fields])
    return pa.int64() if is_wide and kind.equals(pa.decimal128(38, 0)) else kind


def _columns_of(schema: pa.Schema) -> Columns:
    # Not with the module, which is there before anything is asked: sqlglot comes with it.
    from lakestream.storage.small.typed.scopes import columns_of

    return columns_of(schema)


def _are_passed(columns: Columns | None) -> bool:
    from lakestream.storage.small.typed.scopes import is_passed

    return any(is_passed(kind) for _, kind in columns or ())


def _check_types(schema: pa.Schema, passed: Columns | None) -> None:
    """Refuse types that are not on the list, and those only passed on where they are not expected."""
    from lakestream.storage.small.typed.scopes import are_alike, is_passed

    for at, (_, kind) in enumerate(_columns_of(schema)):
        if is_passed(kind) and (passed is None or not are_alike(kind, passed[at][1])):
            raise NotExactError(f"a column of {kind}")
