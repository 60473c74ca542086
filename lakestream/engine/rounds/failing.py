"""What becomes of a stream that fails: a named state, or another attempt after a pause that grows."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.engine.base.instants import to_micros
from lakestream.engine.base.refused import spark_message
from lakestream.engine.planning.checks import (
    named_state,
)
from lakestream.errors import BusyError, LakestreamError, SparkGoneError, StorageError, StreamError
from lakestream.notify.alerts import put_alert
from lakestream.storage.places.refusals import store_refusal
from lakestream.storage.records.registry import Failure
from lakestream.storage.sessions.executors import lonely
from lakestream.storage.sessions.session import (
    check_connection,
    check_error,
    check_spark_lives,
    has_lost_spark,
)
from lakestream.storage.tables.table import storage_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.engine.rounds.loading import Loader
    from lakestream.engine.rounds.runtime import Services, StreamRuntime
    from lakestream.storage.records.registry import Status, StreamRecord


LONGEST_PAUSE_US = 300_000_000
"""The longest pause between two attempts, in microseconds; the first one is a second."""

MOST_DEATHS = 3
"""A tick of which Spark has died so often is not tried again until somebody says so."""

_PASSING = {
    *("COMMIT_CONFLICT", "COMMIT_FAILED", "CREATE_FAILED", "EDIT_FAILED", "IO_ERROR"),
    *("READ_FAILED", "TABLE_UNREADABLE"),
    *("CLOCK_SKEW", "LAKE_GONE", "NO_BUCKET", "STORE_FAILED", "STORE_REFUSED", "STORE_UNREACHABLE"),
    *("SPARK_UNREACHABLE", "SPARK_RESTING", "NO_EXECUTORS"),
}
_FIRST_PAUSE_US = 1_000_000
_MOST_DOUBLED = 10


def may_pass(error: LakestreamError) -> bool:
    """Return whether an error is of the storage, or of a busy cluster, and may be gone the next time."""
    return isinstance(error, BusyError | StorageError) and error.code in _PASSING


_log = logging.getLogger(__name__)
_CANCELLED = "SPARK_JOB_CANCELLED"
_states = logging.getLogger("lakestream.states")
"""Tells of streams that fail and recover."""


@dataclass
class Retries:
    """When this process tries which stream again; another process does so at once."""

    _attempts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def put(self, uuid: str, now_us: int) -> int:
        """Note that a stream has failed once more; return when it is tried again (µs since 1970 UTC)."""
        count = self._attempts.get(uuid, (0, 0))[0]
        due_us = now_us + min(_FIRST_PAUSE_US << min(count, _MOST_DOUBLED), LONGEST_PAUSE_US)
        self._attempts[uuid] = count + 1, due_us
        return due_us

    def is_due(self, uuid: str, now_us: int) -> bool:
        """Return whether a stream may be tried again."""
        return now_us >= self._attempts.get(uuid, (0, 0))[1]

    def forget(self, uuid: str) -> None:
        """Let the next failure of a stream be its first one."""
        self._attempts.pop(uuid, None)

    def keep(self, uuids: set[str]) -> None:
        """Forget all other streams: they were dropped, or stopped."""
        self._attempts = {uuid: tried for uuid, tried in self._attempts.items() if uuid in uuids}

    @property
    def due(self) -> Mapping[str, int]:
        """When each stream that has failed is tried again (µs since 1970 UTC)."""
        return {uuid: due_us for uuid, (_, due_us) in self._attempts.items()}


@dataclass
class Failing:
    """Gives streams that fail their named state; their neighbours go on."""

    services: Services
    loader: Loader
    retries: Retries = field(default_factory=Retries)

    def fail(self, record: StreamRecord, error: LakestreamError) -> None:
        """Give the stream its named state, or try it again later; its neighbours go on."""
        self.loader.known.pop(record.uuid, None)
        if not self.services.is_ours(record.uuid):
            return
        named = named_state(record, error)
        self.note(record, named)
        # In an object store another process may just have run the stream: what it did is read then.
        rival = named.code == "FENCED" and not self.services.catalog.layout.is_local
        if not (may_pass(named) or rival):
            self._alert(record, "Failed", str(named))
            self.services.registry.update(record.uuid, status="Failed", last_error=str(named))
            _tell(logging.ERROR, record, f"has failed: {named}", named.code)
            return
        retry_us = self.retries.put(record.uuid, to_micros(self.services.clock.now()))
        self._alert(record, "Retrying", str(named))
        self.services.registry.update(
            record.uuid, status="Retrying", last_error=str(named), retry_us=retry_us
        )
        _tell(logging.WARNING, record, f"is tried again: {named}", named.code)

    def named(self, record: StreamRecord, error: BaseException) -> LakestreamError:
        """Return what a tick failed of, as :func:`as_failure`.

        Raises SparkGoneError too; where Spark has died the stream comes last the next time, and after some
        deaths of one tick it has failed: whoever starts Spark again would see it die for ever. Where clients'
        statements may have been the reason, it is only tried again.
        """
        try:
            return as_failure(error)
        except SparkGoneError as gone:
            if gone.code == "SPARK_DIED" and self.services.is_ours(record.uuid):
                again = self.services.has_guests() or self._may_survive(record, gone)
                status: Status = "Retrying" if again else "Failed"
                self._alert(record, status, str(gone))
                self.services.registry.update(record.uuid, status=status, last_error=str(gone))
            raise

    def _may_survive(self, record: StreamRecord, gone: SparkGoneError) -> bool:
        """Note that Spark has died of a tick; return whether that has not come too often."""
        known = self.services.registry.failures(record.uuid)
        if not known or known[-1].message != gone.message:  # a death, by its process, counts once
            self.note(record, gone)
        failures = self.services.registry.failures(record.uuid)[-MOST_DEATHS:]
        last = {(failure.code, failure.tick) for failure in failures}
        return len(failures) < MOST_DEATHS or len(last) > 1

    def note(self, record: StreamRecord, error: LakestreamError) -> None:
        """Add a failure to what is remembered of the stream's ticks."""
        progress = self.services.registry.last(record.uuid)[1]
        tick = progress.tick + 1 if progress else 1
        now_us = to_micros(self.services.system_clock.now())
        self.services.registry.put_failure(
            Failure(uuid4().hex, record.uuid, now_us, tick, error.code, error.message)
        )

    def recover(self, runtime: StreamRuntime) -> None:
        """Let a stream that was tried again run as others do."""
        if runtime.record.status == "Retrying":
            self._alert(runtime.record, "Running", None)
            runtime.record = self.services.registry.update(
                runtime.record.uuid, status="Running", last_error=None
            )
            _tell(logging.INFO, runtime.record, "has recovered")

    def is_suspect(self, record: StreamRecord) -> bool:
        """Return whether Spark has died of the stream's last attempt, or of what was done beside it."""
        if record.status != "Retrying":
            return False
        failures = self.services.registry.failures(record.uuid)
        return bool(failures) and failures[-1].code == "SPARK_DIED"

    def _alert(self, record: StreamRecord, status: str, why: str | None) -> None:
        """Have those told who are to know that a stream gets another status than it has, before it has it."""
        if record.status == status or not self.services.settings.alert_urls:
            return
        name = f"{record.database}.{record.name}"
        put_alert(self.services.outbox, name, status, why, to_micros(self.services.system_clock.now()))

    def is_active(self, record: StreamRecord) -> bool:
        """Return whether a stream runs, or has failed and is to be tried again now."""
        if record.status != "Retrying":
            return record.status == "Running"
        return self.retries.is_due(record.uuid, to_micros(self.services.clock.now()))


def _tell(level: int, record: StreamRecord, what: str, code: str | None = None) -> None:
    """Write to the log what became of a stream."""
    name = f"{record.database}.{record.name}"
    _states.log(level, "%s %s", name, what, extra={"stream": name, "code": code})


def as_failure(error: BaseException) -> LakestreamError:
    """Return what a tick failed of as the named state of its stream; its neighbours go on.

    What is neither ours nor Spark's is a defect: it goes to the log with its traceback. Raises SparkGoneError
    when Spark itself has ended, BusyError INTERRUPTED when somebody has stopped what was computed, and again
    what ends the process.
    """
    if isinstance(error, SparkGoneError) or getattr(error, "code", "") == "INTERRUPTED":
        raise error
    try:
        return _named(error)
    except OSError as asking:
        # An error of Spark's is asked of its JVM for its text, which may have ended since.
        if asking is not error and has_lost_spark(asking):
            check_connection(asking)
        raise


def _named(error: BaseException) -> LakestreamError:
    if (of_cluster := lonely(error)) is not None:
        return of_cluster
    if (of_store := store_refusal(error)) is not None:
        return of_store
    if isinstance(error, LakestreamError):
        if error.__cause__ is not None and has_lost_spark(error.__cause__):
            check_connection(error.__cause__)
        return error
    check_connection(error)
    if (of_storage := storage_refusal(error)) is not None:
        return of_storage
    if not isinstance(error, Exception):
        raise error
    if isinstance(error, _errors_of_spark()):
        check_spark_lives()
        check_error(error)
        if _CANCELLED in str(error):
            raise BusyError("INTERRUPTED", "what Spark computed was stopped; it is computed again") from error
        return StreamError("CALCULATION_FAILED", spark_message(error))
    _log.exception("a tick failed")
    return StreamError("INTERNAL", f"{type(error).__name__}: {error}", hint="this is a defect of lakestream")


def _errors_of_spark() -> tuple[type[Exception], ...]:
    """Return the errors of Spark; none where it is not installed."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ModuleNotFoundError:
        return ()
    return PySparkException, Py4JError
