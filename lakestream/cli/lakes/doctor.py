"""The checks of ``lakestream doctor``: the machine, then the lake, table by table and stream by stream."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakestream.cli.base.output import counted
from lakestream.errors import LakestreamError
from lakestream.java import is_local
from lakestream.storage.sessions.cluster import (
    REMOTE,
    Executor,
    check_master,
    check_server,
    is_standalone,
    room_said,
    workers_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakestream.observation.inspection import Inspection
    from lakestream.settings import Settings
    from lakestream.statements.status import StreamStatus
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.places.layout import Layout
    from lakestream.storage.tables.table import Table

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
    """Check settings, Python, packages, Java, jars and a cluster; starts no JVM and fetches nothing."""
    yield Check("python", "ok", ".".join(map(str, sys.version_info[:3])))
    yield from (_check_package(name) for name in PACKAGES)
    yield _guarded("parser", _parser)
    yield _guarded("java", _java)
    try:
        given = settings()
    except LakestreamError as error:
        yield from (_wrong("settings", one) for one in error.errors)
        return
    yield Check("settings", "ok", f"profile {given.profile}" if given.profile else "no profile")
    yield _guarded("jars", lambda: _jars(given))
    if REMOTE in os.environ:
        yield _guarded("server", lambda: _server(os.environ[REMOTE]))
    elif not is_local(given.master):
        yield _guarded("cluster", lambda: _cluster(given))


def _check_package(name: str) -> Check:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Check(name, "ok", version(name))
    except PackageNotFoundError:
        return Check(name, "wrong", "not installed", hint="pip install 'lakestream[spark]'")


def _parser() -> Check:
    from lakestream.language import parse_statement

    parse_statement("SELECT 1")
    return Check("parser", "ok", "statements are read")


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
    from lakestream.storage.sessions.jars import cache_folder, find_jars, jars_in

    # Where there are none yet, the search would fetch them, which is not the doctor's business.
    checkout = Path(__file__).resolve().parents[3] / ".jars"
    if settings.jars is None and not any(jars_in(folder) for folder in (checkout, cache_folder())):
        return Check("jars", "warning", "not fetched yet", hint="the first start of Spark fetches them")
    found = find_jars(settings.jars)
    return Check("jars", "ok", f"{counted(len(found), 'jar')} in {found[0].parent}")


def _server(remote: str) -> Check:
    """Look whether a server of Spark Connect answers."""
    check_server(remote)
    return Check("server", "ok", f"{remote.partition(';')[0]} answers")


def _cluster(settings: Settings) -> Check:
    """Look whether a cluster's master answers, and whether its workers have room for executors."""
    master, needed = settings.master, Executor.of(settings.spark_conf)
    if not is_standalone(master):
        return Check("cluster", "ok", f"{master}, which is not looked at; each executor needs {needed}")
    check_master(master)
    workers = workers_of(master, settings.spark_conf)
    found = f"{master} answers; each executor needs {needed}; {room_said(workers)}"
    if workers is None:
        return Check("cluster", "warning", found, hint="set spark.master.ui.port in spark_conf")
    if not any(map(needed.fits, workers)):
        hint = "start workers, or set spark.executor.memory in spark_conf to what one has"
        return Check("cluster", "wrong", found, hint=hint)
    return Check("cluster", "ok", found)


def check_lake(layout: Layout, *, keys: bool) -> Iterator[Check]:
    """Check the lake's layout, disk and tables; ``keys`` reads the key columns of every table."""
    from lakestream.clock import SystemClock
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.places.layout import FORMAT_VERSION

    try:
        layout.check()
    except LakestreamError as error:
        yield _wrong("lake", error)
        return
    yield Check("lake", "ok", f"{layout.root}, layout {FORMAT_VERSION}")
    if layout.is_local:
        yield _disk(layout.root)
    catalog = Catalog(layout, SystemClock())
    for database in catalog.databases.names():
        for name in catalog.table_names(database):
            yield from _check_table(catalog, database, name, keys=keys)


def _disk(root: str) -> Check:
    free = shutil.disk_usage(root).free
    found = f"{free / 1024**3:,.1f} GiB free"
    if free < LITTLE_DISK:
        return Check("disk", "wrong", found, hint="make room: Spark spills and Delta keeps old files")
    return Check("disk", "ok", found)


def _check_table(catalog: Catalog, database: str, name: str, *, keys: bool) -> Iterator[Check]:
    title = f"table {database}.{name}"
    try:
        info = catalog.table(database, name)
        table = catalog.handle(info)
    except LakestreamError as error:
        yield _wrong(title, error)
        return
    if table.has_change_feed:
        yield Check(title, "ok", f"version {table.version}, change feed on")
    else:
        yield Check(
            title,
            "wrong",
            "the change feed is off: streams cannot read what changes",
            hint="set the table property delta.enableChangeDataFeed = true",
        )
    if keys:
        yield from _check_keys(title, info, table)


def _check_keys(title: str, info: TableInfo, table: Table) -> Iterator[Check]:
    """Report keys that stand in several rows: INSERT statements upsert, so another program appended them."""
    from lakestream.storage.tables.table import capabilities

    if info.kind in ("output", "quarantine") or not info.key or not capabilities(table).arrow_reads:
        return
    from lakestream.observation.inspection import repeated_rows

    repeated = repeated_rows(table, info.key)
    if repeated:
        yield Check(
            title,
            "warning",
            f"{counted(repeated, 'key')} ({', '.join(info.key)}) in more than one row",
            hint="rows appended by other programs are not merged; each counts",
        )


def described(found: Inspection) -> Iterator[Check]:
    """Say what a Delta table is, what lakestream can do with it, and what streams over it need."""
    yield Check(
        "table",
        "ok",
        f"{found.path}, version {found.version}: {_rows(found)}, "
        f"{found.bytes / 1e6:,.1f} MB in {counted(found.files, 'file')}",
    )
    yield Check("columns", "ok", ", ".join(f"{name} {kind}" for name, kind in found.columns))
    if found.partitioned_by:
        yield Check("parts", "ok", f"partitioned by {', '.join(found.partitioned_by)}")
    yield Check("features", "ok", ", ".join(found.features) or "none")
    yield _way("reads", found.readable, found.slow)
    yield _way("writes", found.writable, found.slow)
    yield _time_of(found)
    yield _feed_of(found)
    yield _history_of(found)


def _rows(found: Inspection) -> str:
    return "rows that no statistics count" if found.rows is None else counted(found.rows, "row")


def _way(name: str, quick: bool, slow: tuple[str, ...]) -> Check:
    how = "without Spark where little is to be done" if quick else f"by Spark, for {', '.join(slow)}"
    return Check(name, "ok", how)


def _time_of(found: Inspection) -> Check:
    if found.time is None:
        hint = (
            "TIMESTAMP BY says which number with its unit, text with its FORMAT, field or expression is one"
        )
        return Check("time", "warning", "no time column: no stream can be triggered by it", hint=hint)
    if found.made_of:
        time = f"{found.time} by {found.made_of}"
    else:
        time = f"{found.time} in {found.unit.lower()}" if found.unit else found.time
    others = f"; there are {', '.join(found.times[1:])} too" if found.times[1:] else ""
    if found.null_times:
        left_out = f"{time} is NULL in {counted(found.null_times, 'row')}{others}"
        return Check("time", "warning", left_out, hint="streams leave such rows out")
    cost = "" if found.skips_files else "; no statistics tell it: what is computed again reads all files"
    return Check("time", "ok", f"{time}{others}{cost}")


def _feed_of(found: Inspection) -> Check:
    if found.has_change_feed:
        return Check("feed", "ok", "the change data feed is on")
    return Check(
        "feed",
        "wrong",
        "the change data feed is off: streams cannot read what changes",
        hint="lakestream attach switches it on, by a commit to the table, for which you need to write there; "
        "or whoever does sets the table property delta.enableChangeDataFeed = true",
    )


def _history_of(found: Inspection) -> Check:
    """Say what a stream that begins with the rows that are there would read and write."""
    if found.windows is None:
        return Check("history", "ok", f"{_rows(found)} to read; no statistics tell their times")
    groups = f" for each {found.group}" if found.group else ""
    windows = counted(found.windows, "window")
    cost = f"{_rows(found)} to read, {windows} of {found.window}{groups} to write"
    return Check("history", "ok", cost)


def check_table(layout: Layout, name: str, *, keys: bool) -> Iterator[Check]:
    """Check a table of the lake, ``t`` or ``db.t``; ``keys`` reads it to look for what is there twice.

    Raises StatementError DATABASE_NOT_FOUND or TABLE_NOT_FOUND.
    """
    from lakestream.clock import SystemClock
    from lakestream.observation.inspection import inspect
    from lakestream.statements.workspace import DEFAULT_DATABASE
    from lakestream.storage.names.catalog import Catalog

    catalog = Catalog(layout, SystemClock())
    database, _, own = name.rpartition(".")
    info = catalog.table(database or DEFAULT_DATABASE, own)
    table = catalog.handle(info)
    unit = info.read_time.unit if info.read_time else None
    found = inspect(table, info.time_column or None, unit)
    if info.catalog_name:
        yield Check("name", "ok", f"{info.catalog_name} in the catalog that it was found in")
    yield from described(found)
    if keys:
        yield _repeated(info, table, found)


def _repeated(info: TableInfo, table: Table, found: Inspection) -> Check:
    """Look for keys in several rows, or in a table without a key for rows that are equal."""
    from lakestream.observation.inspection import repeated_rows

    simple = all(not kind.startswith(("struct", "array", "map")) for _, kind in found.columns)
    of = info.key or tuple(name for name, _ in found.columns)
    if not found.readable or not (info.key or simple):
        return Check("repeated", "ok", "not looked for: only Spark could")
    repeated = repeated_rows(table, of)
    what = f"keys ({', '.join(info.key)})" if info.key else "rows"
    if not repeated:
        return Check("repeated", "ok", f"no {what} in more than one row" if info.key else "no equal rows")
    return Check(
        "repeated", "warning", f"{repeated:,} {what} are there more than once", hint="each row counts"
    )


def check_streams(streams: Iterable[StreamStatus]) -> Iterator[Check]:
    """Check that no stream has failed and none lags; a lag is a warning."""
    for stream in streams:
        name = f"{stream.database}.{stream.name}"
        title = f"stream {name}"
        if stream.status == "Failed":
            yield Check(title, "wrong", f"failed: {stream.last_error}", hint=f"then: lakestream start {name}")
        elif stream.status == "Retrying":
            yield Check(title, "warning", f"tried again: {stream.last_error}")
        elif stream.status == "Stopped":
            yield Check(title, "ok", "stopped")
        elif stream.waiting_groups:
            yield Check(
                title,
                "warning",
                f"too many windows, so these groups wait: {'; '.join(stream.waiting_groups)}",
                hint="delete their row that is far from the others",
            )
        elif stream.held_back:
            yield Check(title, "warning", f"held back by {stream.held_back}")
        elif stream.lag:
            yield Check(title, "warning", f"{counted(stream.lag, 'commit')} behind", hint="lakestream run")
        else:
            yield Check(title, "ok", "up to date")
