"""The checks of ``lakestream doctor``: the machine, then the lake, table by table and stream by stream."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakestream.cli.output import counted
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.lake import Lake, StreamStatus
    from lakestream.settings import Settings
    from lakestream.storage.catalog import TableInfo
    from lakestream.storage.table import Table

Verdict = Literal["ok", "warning", "wrong"]

PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "sqlglot")
LITTLE_DISK = 1024**3
"""Free bytes on the lake's disk below which Spark may fail to spill."""


@dataclass(frozen=True)
class Check:
    """What a check found; only ``wrong`` makes the command fail."""

    name: str
    verdict: Verdict
    found: str
    hint: str = ""


def check_machine(settings: Callable[[], Settings]) -> Iterator[Check]:
    """Check settings, Python, packages, Java and jars; starts no JVM and fetches nothing."""
    yield Check("python", "ok", ".".join(map(str, sys.version_info[:3])))
    yield from (_check_package(name) for name in PACKAGES)
    yield _guarded("java", _java)
    try:
        given = settings()
    except LakestreamError as error:
        yield _wrong("settings", error)
        return
    yield Check("settings", "ok", f"profile {given.profile}" if given.profile else "no profile")
    yield _guarded("jars", lambda: _jars(given))


def _check_package(name: str) -> Check:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Check(name, "ok", version(name))
    except PackageNotFoundError:
        return Check(name, "wrong", "not installed", hint="pip install lakestream")


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except LakestreamError as error:
        return _wrong(name, error)


def _wrong(name: str, error: LakestreamError) -> Check:
    return Check(name, "wrong", f"{error.code}: {error.message}", hint=error.hint)


def _java() -> Check:
    from lakestream.java import check_java

    java = check_java()
    return Check("java", "ok", f"{java.version} ({java.executable})")


def _jars(settings: Settings) -> Check:
    from lakestream.storage.jars import cache_folder, find_jars, jars_in

    # Without a folder the jars may still have to be fetched, which is not the doctor's business.
    if settings.jars is None and not jars_in(cache_folder()):
        return Check(
            "jars", "warning", "not fetched yet", hint="the first start of Spark fetches them, or set jars"
        )
    found = find_jars(settings.jars)
    return Check("jars", "ok", f"{counted(len(found), 'jar')} in {found[0].parent}")


def check_lake(lake: Lake, *, keys: bool) -> Iterator[Check]:
    """Check the lake's disk, its tables and its streams; ``keys`` reads the key columns of every table."""
    from lakestream.storage.layout import FORMAT_VERSION

    yield Check("lake", "ok", f"{lake.root}, layout {FORMAT_VERSION}")
    if lake.layout.is_local:
        yield _disk(lake.layout.root)
    for database in lake.catalog.databases():
        for info in lake.catalog.tables(database):
            yield from _check_table(info, keys=keys)
    yield from (_check_stream(stream) for stream in lake.streams())


def _disk(root: str) -> Check:
    free = shutil.disk_usage(root).free
    found = f"{free / 1024**3:,.1f} GiB free"
    if free < LITTLE_DISK:
        return Check("disk", "wrong", found, hint="make room: Spark spills and Delta keeps old files")
    return Check("disk", "ok", found)


def _check_table(info: TableInfo, *, keys: bool) -> Iterator[Check]:
    from lakestream.storage.table import Table

    name = f"table {info.database}.{info.name}"
    try:
        table = Table.open(info.path)
    except LakestreamError as error:
        yield _wrong(name, error)
        return
    if table.has_change_feed:
        yield Check(name, "ok", f"version {table.version}, change feed on")
    else:
        yield Check(
            name,
            "wrong",
            "the change feed is off: streams cannot read what changes",
            hint="set the table property delta.enableChangeDataFeed = true",
        )
    if keys:
        yield from _check_keys(name, info, table)


def _check_keys(name: str, info: TableInfo, table: Table) -> Iterator[Check]:
    """Report keys that stand in several rows: INSERT statements upsert, so another program appended them."""
    from lakestream.storage.table import capabilities

    if info.kind == "output" or not info.key or not capabilities(table).arrow_reads:
        return
    repeated = count_repeated_keys(table, info.key)
    if repeated:
        yield Check(
            name,
            "warning",
            f"{counted(repeated, 'key')} ({', '.join(info.key)}) in more than one row",
            hint="rows appended by other programs are not merged; each counts",
        )


def count_repeated_keys(table: Table, key: tuple[str, ...]) -> int:
    """Return how many keys have more than one row at the version seen last, without a JVM."""
    from deltalake import QueryBuilder

    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in key)
    repeated = f"SELECT {columns} FROM t GROUP BY {columns} HAVING count(*) > 1"  # noqa: S608 (quoted names)
    builder = QueryBuilder().register("t", table.handle)
    batch = builder.execute(f"SELECT count(*) AS n FROM ({repeated})").read_all()  # noqa: S608
    return int(batch.column("n")[0].as_py())


def _check_stream(stream: StreamStatus) -> Check:
    name = f"stream {stream.database}.{stream.name}"
    if stream.status == "Failed":
        return Check(
            name,
            "wrong",
            f"failed: {stream.last_error}",
            hint=f"then: lakestream start {stream.database}.{stream.name}",
        )
    if stream.status == "Stopped":
        return Check(name, "ok", "stopped")
    if stream.lag:
        return Check(name, "warning", f"{counted(stream.lag, 'commit')} behind", hint="lakestream run")
    return Check(name, "ok", "up to date")
