"""The Spark session: started on first need, the same way everywhere, in UTC and quiet.

Session settings that decide about *results* are set on any session that lakestream works with (its own,
one that the caller gives, a cluster's); those that only make a small machine fast are set on its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary, WeakSet

from lakestream.clock import SystemClock
from lakestream.errors import ConfigError, LakeError, PrerequisiteError, SparkGoneError
from lakestream.java import check_java, is_local
from lakestream.storage.places.scratch import scratch_folder, user_folder
from lakestream.storage.sessions.archive import archive_beside
from lakestream.storage.sessions.cluster import REMOTE, check_master, check_server, is_standalone
from lakestream.storage.sessions.executors import (
    await_executors,
    fit_partitions,
    lonely,
    runs_elsewhere,
    watch_executors,
)
from lakestream.storage.sessions.jars import (
    check_spark,
    find_jars,
    find_store_jars,
    say_so,
)
from lakestream.storage.sessions.stores import (
    STORE,
    compile_log_store,
    executor_environment,
    has_store,
    store_configuration,
)
from lakestream.storage.tables.table import first_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark import SparkConf, SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.settings import Settings
    from lakestream.storage.places.layout import Layout
    from lakestream.storage.sessions.jars import Watch
    from lakestream.storage.sessions.remote import PinnedSession

_MEANING = {
    # Instants are instants: text is read and shown in UTC wherever the process runs.
    "spark.sql.session.timeZone": "UTC",
    # A cast that fails and a division by zero give NULL, as in TDengine; Spark 4 would raise.
    "spark.sql.ansi.enabled": "false",
    # ${env:SECRET} in a statement must stay text.
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of the session (not of the machine) that results depend on."""

_STATEMENTS = {
    # text.`/etc/passwd` must stay a missing table.
    "spark.sql.runSQLOnFiles": "false",
}
"""What is set for statements alone: who has the session itself may read what it can."""

_OWN = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # There is no metastore: tables are named from the lake's layout.
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.locality.wait": "0",
    # Small ticks: one planning per query instead of one per stage.
    "spark.sql.adaptive.enabled": "false",
    # The queries of one large tick are a hundred classes: Spark's 100 entries may not hold them for the next.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Each sort, aggregate and join takes a page at once: 64 MB unless told, which small ticks clear in vain.
    "spark.buffer.pageSize": "4m",
    # Delta replays a table's log in 50 tasks unless told; ours are short.
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""Further settings of a session that lakestream starts; ``spark_conf`` wins over each."""

_WITH_FUNCTIONS = ("spark.sql.extensions", "spark.sql.catalog", "spark.plugins")
"""How settings of Spark begin by which a session may have functions that are not Spark's."""

_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

_AWAY = {
    # What a shuffle gives is put together where it is little.
    "spark.sql.adaptive.enabled": "true",
}
"""Further ones where executors are elsewhere; shuffles follow their number: see fit_partitions."""

_NO_DELTA = ("[DATA_SOURCE_NOT_FOUND]", "[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG]")
"""How Spark says that it lacks the jars of Delta Lake, or that the session is not set to use them."""

_LEAST_SPARK = 4
"""The oldest Spark, by its major version, whose functions and Delta are those that statements are run by."""

_PARTITIONS = "spark.sql.shuffle.partitions"
_SMALL_PARTS = {
    "spark.sql.files.maxPartitionBytes": "16m",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}
_ROWS_OF_PARTITION = 100_000

_ENDING_SECONDS = 2.0
"""How long Spark's JVM may take to end after its connection was lost."""

_LATE_SECONDS = 30.0
"""For so long after a Spark was let go of, what fails may have been asked of that one."""

_LOST = ("Py4JNetworkError", "Py4JError")
"""What py4j raises where its JVM does not answer."""


def spark_session(settings: Settings, watch: Watch = say_so, schemes: Collection[str] = ()) -> SparkSession:
    """Return a Spark session for lakestream, starting Spark when none is active in this process.

    An active session (a notebook's, a Databricks cluster's) is used through a child session, so that its own
    settings stay as they are; so is one of the server that SPARK_REMOTE names. One that is started reads URIs
    of the ``schemes``, where lakestream knows how to have it so. ``watch`` shows what is waited for. Raises
    PrerequisiteError (SPARK_MISSING, JAVA_MISSING, JAVA_TOO_OLD, JARS_…, SPARK_NOT_STARTED), SparkGoneError
    SPARK_STOPPED, BusyError (SPARK_UNREACHABLE, NO_EXECUTORS) of a cluster, ConfigError SETTING_INVALID, and
    what adopt_session raises.
    """
    check_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote as is_process_remote

    active = SparkSession.getActiveSession()
    # A thread of its own has no active session; the process may have one all the same.
    running = SparkContext._active_spark_context is not None  # noqa: SLF001 - nothing public tells
    if active is None and is_process_remote():
        active = _default_remote()
    if active is None and not running and REMOTE in os.environ:
        active = _connected(os.environ[REMOTE], settings)
    if active is None and (running or "DATABRICKS_RUNTIME_VERSION" in os.environ):
        active = SparkSession.builder.getOrCreate()
    if active is None:
        reads_store = STORE in schemes and not has_store(settings.spark_conf)
        session = _start(settings, watch, reads_store=reads_store)
    else:
        session = adopt_session(active)
    if not is_remote(session):
        await_executors(session)
    return session


def brings_functions(settings: Settings) -> bool:
    """Return whether the session that :func:`spark_session` would give may have functions of others.

    One that is started here has Spark's own alone, unless ``spark_conf`` gives it extensions or a catalog.
    """
    if any(key.startswith(_WITH_FUNCTIONS) for key in settings.spark_conf):
        return True
    if any(
        name in os.environ for name in (REMOTE, "SPARK_CONNECT_MODE_ENABLED", "DATABRICKS_RUNTIME_VERSION")
    ):
        return True
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkContext._active_spark_context is not None or SparkSession.getActiveSession() is not None  # noqa: SLF001


def _connected(remote: str, settings: Settings) -> SparkSession:
    """Return a session of the server of Spark Connect that the environment names; it starts no JVM."""
    from pyspark.errors import PySparkImportError
    from pyspark.sql import SparkSession

    if settings.connect_port:
        raise ConfigError(
            "SETTING_INVALID",
            f"connect_port is {settings.connect_port}, and {REMOTE} is set: no Spark runs here to be served",
            hint=f"leave one of them out; clients may ask {remote.partition(';')[0]} itself",
        )
    check_server(remote)
    try:
        return SparkSession.builder.remote(remote).getOrCreate()
    except PySparkImportError as error:
        raise PrerequisiteError(
            "PACKAGE_MISSING",
            f"Spark Connect needs a package that is not installed: {first_line(error)}",
            hint="pip install 'pyspark[connect]'",
        ) from None


def _default_remote() -> SparkSession:
    """Return the session of a process whose PySpark is a client of Spark Connect: it can start no other."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        raise _stopped("the session of Spark Connect that this process has had is stopped") from None


def adopt_session(spark: SparkSession) -> SparkSession:
    """Return a session that computes as lakestream does: ``spark`` itself if it already does, else a child.

    The child shares catalog and cluster with ``spark`` and leaves its settings alone. Raises ConfigError
    UNSAFE_SPARK_CONF when the session is set to pass over missing files, which would lose rows silently,
    PrerequisiteError SPARK_TOO_OLD, DELTA_NOT_CONFIGURED, SPARK_CONF_REFUSED, and what check_given raises.
    """
    from pyspark.errors import PySparkException

    from lakestream.given import PASSING_OVER, refuse_silent_loss

    check_given(spark)
    try:
        _check_version(spark)
        _check_delta(spark)
        refuse_silent_loss({key: spark.conf.get(key, "false") or "false" for key in PASSING_OVER})
        fits = all(spark.conf.get(key, None) == value for key, value in _MEANING.items())
    except PySparkException as error:
        check_error(error)
        raise
    return spark if fits else child_session(spark, _MEANING)


def statement_session(spark: SparkSession, place: str = "") -> SparkSession:
    """Return a session in which the statements and ticks of one lake run beside an adopted one.

    Its temporary views are its own, and a statement in it reads no files by path. Give it to end_session.
    ``place`` is the folder where executors of a cluster find files that are handed to them.
    """
    session = child_session(spark, _MEANING | _STATEMENTS)
    _PLACES[session] = place
    return session


def handed_place(spark: SparkSession) -> str:
    """Return the folder for files that the executors of a session can read, empty where none is known.

    Nothing but what this process hands to Spark lies there.
    """
    if is_remote(spark):
        return ""
    return _own_place() if is_local(spark.sparkContext.master or "") else _PLACES.get(spark, "")


@cache
def _own_place() -> str:
    return str(scratch_folder() / "handed")


_PLACES: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def fit_cluster(spark: SparkSession) -> None:
    """Have a session of a cluster of ours follow the number of its executors."""
    if not is_remote(spark):
        fit_partitions(spark)


def check_reach(spark: SparkSession, layout: Layout) -> None:
    """Raise LakeError LAKE_NOT_SHARED when Spark runs elsewhere and does not find the lake there.

    It would write tables of its own where it does not see the lake's.
    """
    from pyspark.errors import PySparkException

    remote = is_remote(spark)
    if not remote and not (layout.is_local and runs_elsewhere(spark)):
        return
    path, text = layout.marker()
    # Of a cluster each executor is asked, as far as that can be said: it has its own disk.
    times = 1 if remote else 2 * spark.sparkContext.defaultParallelism
    found, why = {""}, "it finds another lake there"
    try:
        rows = spark.read.option("wholetext", "true").text([path] * times).collect()
        found = {row.value.rstrip("\n") for row in rows}
    except PySparkException as error:
        check_error(error)
        why = first_line(error)
    if found != {text.rstrip("\n")}:
        who = "the server of the Spark session" if remote else "an executor of the Spark cluster"
        raise LakeError(
            "LAKE_NOT_SHARED",
            f"{who} does not read the lake at {layout.root}: {why}",
            hint="make the lake where this process and Spark reach it by the same path or URI",
        )


def end_session(spark: SparkSession) -> None:
    """Give a statement_session back: a server keeps what it has of one until then."""
    if is_remote(spark):
        cast("PinnedSession", spark).release()


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect (Databricks Connect too): its Spark runs elsewhere."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(spark).__mro__)


def check_given(spark: SparkSession) -> None:
    """Refuse a session that has been stopped: SparkGoneError SPARK_STOPPED or SPARK_DIED."""
    if not is_remote(spark):
        check_spark_lives(spark)
    elif cast("PinnedSession", spark).is_stopped:
        raise _stopped("the Spark session has been stopped")


def _check_version(spark: SparkSession) -> None:
    if int(spark.version.partition(".")[0]) < _LEAST_SPARK:
        raise PrerequisiteError(
            "SPARK_TOO_OLD",
            f"the Spark of the session is {spark.version}",
            hint=f"lakestream computes with Spark {_LEAST_SPARK} and newer",
        )


def _check_delta(spark: SparkSession) -> None:
    """Raise PrerequisiteError DELTA_NOT_CONFIGURED when Spark says so; asked once per running Spark."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    asked = spark if is_remote(spark) else spark.sparkContext
    if asked in _WITH_DELTA:
        return
    try:
        spark.read.format("delta").load(str(Path(tempfile.gettempdir()) / "lakestream-no-such-table")).schema  # noqa: B018 - a server is asked by it
    except (PySparkException, Py4JError) as error:
        if any(said in str(error) for said in _NO_DELTA):
            raise PrerequisiteError(
                "DELTA_NOT_CONFIGURED",
                "the Spark session reads and writes no tables of Delta Lake",
                hint="build the first session of the process with "
                "delta.configure_spark_with_delta_pip(builder), or start the server of Spark Connect, with "
                f"spark.sql.extensions={_OWN['spark.sql.extensions']} and spark.sql.catalog.spark_catalog="
                f"{_OWN['spark.sql.catalog.spark_catalog']}",
            ) from None
    _WITH_DELTA.add(asked)


_WITH_DELTA: WeakSet[SparkContext | SparkSession] = WeakSet()


def frame_of(spark: SparkSession, rows: Any, schema: Any = None) -> DataFrame:  # noqa: ANN401 - as Spark's own
    """Return rows as a DataFrame of a session; whichever session is the active one stays that.

    ``createDataFrame`` makes its session the active one, which a user's next query would then run in; that
    of Spark Connect does not.
    """
    if is_remote(spark):
        return spark.createDataFrame(rows, _schema_of_none(rows) if schema is None else schema)
    with _ACTIVE, _same_active():
        return spark.createDataFrame(rows, schema)


def _schema_of_none(rows: Any) -> Any:  # noqa: ANN401 - as Spark's own
    """Return the schema of an Arrow table without rows, of which Spark Connect takes none."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(rows.schema) if getattr(rows, "num_rows", None) == 0 else None


def checkpointed(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Return a frame of a statement_session with its rows computed, once, and kept by Spark."""
    # What Spark infers of a checkpoint may name columns that it does not have: a second one fails of it.
    with _with_setting(spark, "spark.sql.constraintPropagation.enabled", "false"):
        if is_remote(spark):
            return cast("PinnedSession", spark).checkpointed(frame)
        return frame.localCheckpoint()


_ACTIVE = threading.Lock()
"""PySpark keeps the active session for the process, the JVM for each thread."""


@contextmanager
def _same_active() -> Iterator[None]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    assert SparkContext._jvm is not None, "a session was given"  # noqa: SLF001 - nothing public sets the active one
    sessions = SparkSession._get_j_spark_session_class(SparkContext._jvm)  # noqa: SLF001
    kept, active = SparkSession._activeSession, sessions.getActiveSession()  # noqa: SLF001
    try:
        yield
    finally:
        SparkSession._activeSession = kept  # noqa: SLF001
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def few_partitions(spark: SparkSession, rows: int) -> Iterator[None]:
    """Have queries over so many rows shuffle in no more partitions than the rows are worth.

    A session that was given has 200 of them unless told, of which each is a task.
    """
    before = spark.conf.get(_PARTITIONS) or ""
    fewer = max(1, -(-rows // _ROWS_OF_PARTITION))
    if not before.isdecimal() or fewer >= int(before):
        yield
        return
    with _with_setting(spark, _PARTITIONS, str(fewer)):
        yield


@contextmanager
def _with_setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Have a session a setting for a while."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


@contextmanager
def small_parts(spark: SparkSession) -> Iterator[None]:
    """Have what a session computes meanwhile be computed in parts that its driver holds one of easily."""
    with ExitStack() as settings:
        for key, value in _SMALL_PARTS.items():
            settings.enter_context(_with_setting(spark, key, value))
        yield


def child_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return another session of the same Spark, with settings of its own.

    Raises PrerequisiteError SPARK_CONF_REFUSED where Spark does not let one be set.
    """
    from pyspark.errors import PySparkException

    child = _another_session(spark)
    for key, value in settings.items():
        try:
            child.conf.set(key, value)
        except PySparkException as error:
            check_error(error)
            raise PrerequisiteError(
                "SPARK_CONF_REFUSED",
                f"Spark does not let {key} be set to {value}, which results depend on: {first_line(error)}",
                hint="take a cluster whose sessions may be set so",
            ) from None
    return child


def _another_session(spark: SparkSession) -> SparkSession:
    if not is_remote(spark):
        return spark.newSession()
    from lakestream.storage.sessions.remote import PinnedSession

    return cast("SparkSession", PinnedSession(cast("PinnedSession", spark)))


def check_spark_lives(spark: SparkSession | None = None, wait_seconds: float = 0) -> None:
    """Raise SparkGoneError when Spark has ended: SPARK_DIED by itself, SPARK_STOPPED by whoever has it.

    That is the Spark of a session, without one that of the process, if it has one. After a lost connection
    the JVM may take a moment to end: up to ``wait_seconds`` are waited for that.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    if spark is None:
        _check_late()
        if SparkContext._gateway is None:  # noqa: SLF001 - nothing public tells
            return
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - as above
    _check_process(process, wait_seconds)
    context = SparkContext._active_spark_context if spark is None else spark.sparkContext  # noqa: SLF001
    try:
        stopped = context is None or context._jsc is None or context._jsc.sc().isStopped()  # noqa: SLF001
    except (Py4JError, OSError):  # it ends just now
        _check_process(process, _ENDING_SECONDS)
        raise
    if stopped:
        _check_process(process, _ENDING_SECONDS)  # a JVM that ends stops its sessions first
        raise _stopped("the Spark session has been stopped, by its owner or by the cluster's master")


def _check_process(process: subprocess.Popen[bytes] | None, wait_seconds: float) -> None:
    """Raise SparkGoneError SPARK_DIED where Spark's JVM has ended, or does within some seconds."""
    if process is None:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(wait_seconds)
    if process.returncode is not None:
        raise _died(process, f"has ended with status {process.returncode}")


def has_lost_spark(error: BaseException) -> bool:
    """Return whether an error is one by which the connection to Spark was lost, if it had to do with it."""
    return isinstance(error, ConnectionError | EOFError) or type(error).__name__ in _LOST


def check_connection(error: BaseException) -> None:
    """Raise SparkGoneError for what fails where Spark has ended, or is about to by what the error says."""
    if "pyspark" not in sys.modules:
        return
    if has_lost_spark(error):
        check_spark_lives(wait_seconds=_ENDING_SECONDS)
        return
    from pyspark import SparkContext

    _check_late()
    _check_process(getattr(SparkContext._gateway, "proc", None), 0)  # noqa: SLF001 - nothing public tells


@dataclass(frozen=True)
class _Started:
    """The JVM that was started here, and the folder of what it keeps on the disk."""

    process: subprocess.Popen[bytes]
    scratch: Path


_STARTED: list[_Started] = []
"""At most one; a process has one JVM at a time."""

_LATELY: list[tuple[SparkGoneError, float]] = []
"""What was said of the Spark that was let go of last, and when."""


def forget_spark(gone: SparkGoneError) -> bool:
    """Let go of a Spark that was started here and whose JVM has ended: the next session starts another.

    Returns False where there is none: another one is its owner's. ``gone`` is what is said of it to those who
    hear from it no more.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if not _STARTED or _STARTED[0].process.poll() is None:
        return False
    started = _STARTED.pop()
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001 - nothing public does
    _LATELY[:] = [(gone, SystemClock().monotonic())]
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
    with contextlib.suppress(Exception):  # its connections lead nowhere
        if context is not None:
            context._jsc = None  # noqa: SLF001 - it cannot be asked to stop
            context.stop()
    with contextlib.suppress(Exception):
        if gateway is not None:
            gateway.close()
    shutil.rmtree(started.scratch, ignore_errors=True)
    return True


def _check_late() -> None:
    """Raise SparkGoneError where a Spark was let go of just now."""
    for gone, at in _LATELY:
        if SystemClock().monotonic() - at < _LATE_SECONDS:
            raise gone


_BROKEN = {
    *("java.lang.VirtualMachineError", "java.lang.InternalError", "java.lang.UnknownError"),
    "java.lang.OutOfMemoryError",
}
"""What Java throws where its virtual machine is broken, or out of what it needs to go on."""
_MOST_CAUSES = 20


def _is_broken(error: Exception) -> bool:
    """Return whether the JVM says that it is broken: by what it threw, as texts are anybody's."""
    thrown = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    with contextlib.suppress(Exception):  # it may not answer any more
        for _ in range(_MOST_CAUSES):
            if thrown is None:
                break
            if thrown.getClass().getName() in _BROKEN:
                return True
            thrown = thrown.getCause()
    return False


def _end_broken(error: Exception) -> None:
    """End the JVM that was started here and is broken: raises SparkGoneError SPARK_DIED.

    It would go on, and fail of whatever comes next.
    """
    if not _STARTED:
        return
    process = _STARTED[0].process
    process.kill()
    process.wait(_ENDING_SECONDS)
    raise _died(process, f"was broken and has been ended: {first_line(error)}") from error


def check_error(error: Exception) -> None:
    """Raise SparkGoneError SPARK_STOPPED for an error of Spark Connect by which a session has ended.

    Raises SparkGoneError SPARK_DIED for one by which the JVM that was started here is broken, which is ended
    then, and BusyError NO_EXECUTORS for that of a query which no executor of a cluster came for.
    """
    if "pyspark" not in sys.modules:
        return
    from pyspark.errors import PySparkAssertionError

    if (busy := lonely(error)) is not None:
        raise busy from error
    if _is_broken(error):
        _end_broken(error)
    if not (
        type(error).__module__.endswith("exceptions.connect") or isinstance(error, PySparkAssertionError)
    ):
        return
    from lakestream.storage.sessions.remote import has_ended

    if has_ended(error):
        raise _stopped(f"the Spark session has ended on its server: {first_line(error)}") from error


def _died(process: subprocess.Popen[bytes], how: str) -> SparkGoneError:
    return SparkGoneError(
        "SPARK_DIED",
        f"Spark's JVM (process {process.pid}) {how}",
        hint="nothing is lost: start again; driver_memory may be too small",
    )


def _stopped(message: str) -> SparkGoneError:
    return SparkGoneError(
        "SPARK_STOPPED",
        message,
        hint="nothing is lost: open the lake again, with a session that runs or without one",
    )


def _start(settings: Settings, watch: Watch, *, reads_store: bool) -> SparkSession:
    if is_standalone(settings.master):
        check_master(settings.master)
    check_java()
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # PySpark prints a failed statement with its whole stack; the exception says it all.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    scratch = Path(tempfile.mkdtemp(prefix="spark-", dir=scratch_folder()))
    log = scratch / "spark.log"
    if is_local(settings.master):
        # Spark looks its own host up by name before it reads its settings; not every container has one.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = find_jars(settings.jars, watch)
    if reads_store:
        jars = [*jars, *find_store_jars(jars, settings.jars, watch)]
    configuration = _configuration(settings, scratch, jars)
    classes = scratch / "classes"
    if reads_store:
        classes.mkdir()
        configuration = _with_store(configuration, [*jars, classes])
    conf = SparkConf(loadDefaults=False).setAll(list(configuration.items()))
    found = SparkContext._gateway is not None  # noqa: SLF001 - nothing public tells
    gives_keys = reads_store and not is_local(settings.master)
    keys = executor_environment(os.environ, settings.spark_conf) if gives_keys else {}
    try:
        with watch("starting Spark", None):
            _launch(conf, log, classes if reads_store else None, keys)
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise PrerequisiteError(
            "SPARK_NOT_STARTED", f"Spark did not start: {_reason(error, log)}", hint=_kept(log)
        ) from error
    if found:  # a JVM that somebody else has started takes no more jars
        _check_delta(spark)
    if not is_local(settings.master):
        watch_executors(spark, configuration, settings.executor_wait_seconds)
    return spark


def _with_store(configuration: Mapping[str, str], class_path: Sequence[Path]) -> dict[str, str]:
    """Return the configuration of a Spark that reads stores too, the driver's class path being this."""
    # Of a cluster too the driver alone commits: it finds Delta and the log of stores in one place.
    own = {"spark.driver.extraClassPath": os.pathsep.join(map(str, class_path))}
    return {**store_configuration(os.environ), **configuration, **own}


def _launch(conf: SparkConf, log: Path, classes: Path | None, keys: Mapping[str, str]) -> None:
    """Start the JVM with what it prints in ``log``: standard output belongs to results.

    A process has one JVM; when it is there already, only the session is new. Into ``classes``, of its class
    path, goes what commits to a store; ``keys`` to one are for the environment of executors.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # noqa: SLF001 - nothing public tells whether there is a JVM
        with log.open("ab") as sink, _temporary_files_in(log.parent):
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, popen_kwargs={"stdout": sink, "stderr": sink}
            )
        _STARTED[:] = [_Started(gateway.proc, log.parent)]
        if classes is not None:
            compile_log_store(gateway, classes)
        for name, value in keys.items():  # not before: the JVM's command line has what is set by then
            conf.setExecutorEnv(name, value)
        SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Have PySpark make its folder where a process that was killed leaves nothing for ever."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _kept(log: Path) -> str:
    """Keep the log beyond this process, in the place of the one kept last, and say where it is."""
    kept = user_folder() / "spark.log"
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, kept)
    except OSError:
        return ""
    return f"its log is {kept}"


def _reason(error: Exception, log: Path) -> str:
    """Return what the JVM said last, or the error's first line when it said nothing."""
    said = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    errors = [line for line in said if "rror" in line or "xception" in line]
    reason = (errors or [str(error).partition("\n")[0]])[0]
    return reason.removeprefix('Exception in thread "main" ')[:300]


def _configuration(settings: Settings, scratch: Path, jars: Sequence[Path]) -> dict[str, str]:
    local = is_local(settings.master)
    log4j = (Path(__file__).parent / "log4j2.properties").as_uri()
    configuration = {
        "spark.app.name": "lakestream",
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        # What one query gathers leaves room for the others: it fails, and Spark goes on.
        "spark.driver.maxResultSize": str(_bytes_of(settings.driver_memory) // 2),
        "spark.sql.maxBroadcastTableSize": str(_bytes_of(settings.driver_memory) // 4),
        # Spark itself goes on without the thread that had no memory, and what waits for it waits for ever.
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+ExitOnOutOfMemoryError "
        f"-Dlog4j2.configurationFile={log4j}",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.scheduler.mode": "FAIR",  # pools get free slots in turn
        **_OWN,
        **_MEANING,
    }
    if local:
        configuration |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        configuration[_PARTITIONS] = str(max(2, _local_cores(settings.master)))
        # On the class path from the start: `spark.jars` would be copied and loaded anew, two seconds later.
        configuration["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
        if (archive := archive_beside(jars)) is not None:
            configuration["spark.driver.extraJavaOptions"] += f' "-XX:SharedArchiveFile={archive}"'
    else:
        theirs = settings.spark_conf.get("spark.jars", "")
        configuration |= {"spark.jars": ",".join([*map(str, jars), *theirs.split(",")]).rstrip(","), **_AWAY}
    for key in _JAVA_OPTIONS:
        # The code that Spark makes of a wide query is longer than what the JVM compiles unless told to.
        configuration[key] += " -XX:-DontCompileHugeMethods"
        if "GC" not in settings.spark_conf.get(key, ""):
            # Queries of many rows take a quarter less than with G1, whose short pauses nobody would notice.
            configuration[key] += " -XX:+UseParallelGC"
    merged = configuration | settings.spark_conf
    for key in _JAVA_OPTIONS:
        # Added to, not replaced: without the zone, instants would be read in the machine's.
        merged[key] = f"{configuration[key]} {settings.spark_conf.get(key, '')}".strip()
    return merged if local else merged | {"spark.jars": configuration["spark.jars"]}


def _bytes_of(memory: str) -> int:
    """Return the bytes of a heap as the setting names it, such as 2g."""
    return int(memory[:-1]) << {"k": 10, "m": 20, "g": 30, "t": 40}[memory[-1].lower()]


def _local_cores(master: str) -> int:
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    if inside.isdigit():
        return int(inside)
    return os.cpu_count() or 2
