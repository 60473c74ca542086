"""Rows that are handed to Spark as files: those of many groups would fill its driver.

What Spark is given as rows lies in the driver's heap, once for each query that reads it, and leaves it with
the tasks. Of more than a megabyte the executors read a file instead: one in this process's scratch folder
where Spark runs on this machine, else one in the lake, which executors reach. A file goes once Spark has no
plan any more that reads it, with the process at the latest; what killed processes have left in a lake goes
when another one hands its first file over there.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakestream.clock import SystemClock
from lakestream.errors import StorageError
from lakestream.forked import at_exit
from lakestream.storage.places import files
from lakestream.storage.sessions.session import frame_of, handed_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from obstore import WritableFile
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST_BYTES = 1 << 20
"""What rows take, in Arrow, that still go through the driver: a file takes some milliseconds more."""

_GROUP_ROWS = 131_072
"""Rows of a file that one task reads."""

_MOST_FILES = 64
"""How many files may lie there before Spark is asked to look which of them are read no more."""

_ABANDONED_SECONDS = 86_400
"""How old a file of another process is that no query reads any more."""


def handed(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return Arrow rows as a DataFrame of the Spark types of ``schema``, by a file if they are many.

    Columns that a file gives may all have NULL, as Spark sees it. Raises OSError and StorageError where
    the file cannot be written.
    """
    place = handed_place(spark) if rows.nbytes > MOST_BYTES and not _lacks_form(rows.schema) else ""
    return frame_of(spark, rows, schema) if not place else _files_in(place).frame(spark, rows, schema)


def _lacks_form(schema: pa.Schema) -> bool:
    """Return whether Parquet has no form for columns: nothing but NULL in lists, structs, maps, or in all."""
    import pyarrow as pa

    def has_null(kind: pa.DataType) -> bool:
        return pa.types.is_null(kind) or any(has_null(kind.field(at).type) for at in range(kind.num_fields))

    kinds = [kind for kind in schema.types if not pa.types.is_null(kind)]
    return not kinds or any(map(has_null, kinds))


@cache
def _files_in(folder: str) -> _Files:
    return _Files(folder)


@dataclass(frozen=True)
class _File:
    """A file that was handed over, and the JVM's weak reference to what its readers' plans have in common."""

    name: str
    read: Any


class _Files:
    """The files that this process has handed over in a folder; its methods may be called in any thread."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._handed: list[_File] = []
        self._lock = threading.Lock()
        _remove_abandoned(folder)
        at_exit(self._remove_all)

    def frame(self, spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
        """Write rows into a new file, and return a frame that reads it."""
        import pyarrow as pa
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import NullType, StructField, StructType

        self._remove_read(spark)
        # By number, not by name: Spark reads no two columns of a file whose names differ by case alone.
        names = [str(at) for at in range(rows.num_columns)]
        absent = [isinstance(field.dataType, NullType) for field in schema]
        kept = [at for at, is_absent in enumerate(absent) if not is_absent]
        typed = rows.cast(to_arrow_schema(schema, timezone="UTC"))
        written = pa.Table.from_arrays([typed.column(at) for at in kept], [names[at] for at in kept])
        there = StructType([StructField(names[at], schema[at].dataType) for at in kept])
        name = f"{uuid4().hex}.parquet"
        _write(self._folder, name, written)
        reader = spark.read.schema(there).options(datetimeRebaseMode="CORRECTED", int96RebaseMode="CORRECTED")
        frame = reader.parquet(files.join(self._folder, name))
        with self._lock:
            self._handed.append(_File(name, _weakly(frame)))
        columns = [F.lit(None) if is_absent else F.col(n) for n, is_absent in zip(names, absent, strict=True)]
        return frame.select(*(c.alias(f.name) for c, f in zip(columns, schema, strict=True)))

    def _remove_read(self, spark: SparkSession) -> None:
        """Remove the files that no plan reads any more."""
        with self._lock:
            listed, self._handed = self._handed, []
        if len(listed) >= _MOST_FILES:
            jvm: Any = spark._jvm  # noqa: SLF001 - nothing public has it
            jvm.java.lang.System.gc()
        read = [file for file in listed if _is_read(file)]
        with self._lock:
            self._handed += read
        _remove(self._folder, [file.name for file in listed if file not in read])

    def _remove_all(self) -> None:
        with self._lock:
            listed, self._handed = self._handed, []
        _remove(self._folder, [file.name for file in listed])


def _write(folder: str, name: str, rows: pa.Table) -> None:
    """Write rows, as large as they are: by the size of a file Spark decides what goes to all executors."""
    from pyarrow import parquet

    def write(where: Any) -> None:  # noqa: ANN401 - a path, or a file to write into
        parquet.write_table(
            rows,
            where,
            row_group_size=_GROUP_ROWS,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
        )

    if files.is_uri(folder):
        import obstore

        with files.store_answers(folder) as store, obstore.open_writer(store, name) as sink:
            write(_Sink(sink))
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    write(f"{folder}/{name}")


class _Sink:
    """A file of obstore's as Arrow writes to one: whether it is closed is no method there."""

    closed = False

    def __init__(self, file: WritableFile) -> None:
        self.write, self.flush = file.write, file.flush


def _weakly(frame: DataFrame) -> Any:  # noqa: ANN401 - Java's WeakReference
    """Return a weak reference to the list of files that all plans share which are made of a frame."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - nothing public tells
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - as above
    return jvm.java.lang.ref.WeakReference(plan.relation().location())


def _is_read(file: _File) -> bool:
    """Return whether a plan may still read a file; none does of a Spark that has ended."""
    from py4j.protocol import Py4JError

    try:
        return file.read.get() is not None
    except (Py4JError, OSError):
        return False


def _remove(folder: str, names: Sequence[str]) -> None:
    """Remove files; what is left where a store or a disk does not answer is removed as abandoned."""
    with suppress(OSError, StorageError):
        if files.is_uri(folder) and names:
            with files.store_answers(folder) as store:
                store.delete([*names])
            return
        for name in names:
            Path(folder, name).unlink(missing_ok=True)


def _remove_abandoned(folder: str) -> None:
    """Remove the files that processes have left which were killed."""
    before = SystemClock().now().timestamp() - _ABANDONED_SECONDS
    with suppress(OSError, StorageError):
        _remove(folder, [name for name, written in _listed(folder) if written < before])


def _listed(folder: str) -> list[tuple[str, float]]:
    """Return the names of files, and when they were written (seconds since 1970)."""
    if files.is_uri(folder):
        with files.store_answers(folder) as store:
            return [
                (one["path"], one["last_modified"].timestamp()) for found in store.list() for one in found
            ]
    return [(path.name, path.stat().st_mtime) for path in Path(folder).glob("*")]
