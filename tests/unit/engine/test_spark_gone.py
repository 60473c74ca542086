"""What an error says of a Spark that has ended."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from lakestream import Lake
from lakestream.engine.rounds.failing import MOST_DEATHS, as_failure
from lakestream.errors import SparkGoneError
from lakestream.statements.dispatch import Statements
from lakestream.storage.sessions import session
from lakestream.storage.sessions.session import check_error, check_spark_lives

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _thrown(name: str, cause: object = None) -> SimpleNamespace:
    """Return what Java has thrown, as it is seen from here."""
    return SimpleNamespace(getClass=lambda: SimpleNamespace(getName=lambda: name), getCause=lambda: cause)


class Captured(PySparkException):
    """An error of Spark that knows what Java has thrown."""

    def __init__(self, thrown: object) -> None:
        super().__init__("java.lang.InternalError: no such method")
        self._origin = thrown


LOST = [ConnectionRefusedError("refused"), Py4JNetworkError("no answer"), Py4JError("o43.getResult")]


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark's process be one that ends in a moment, as after its connections are gone."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_tick_that_lost_spark_says_that_it_has_died(error: Exception) -> None:
    with pytest.raises(SparkGoneError, match="SPARK_DIED"):
        as_failure(error)


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_statement_that_lost_spark_says_that_it_has_died(
    error: Exception, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise error

    with Lake(tmp_path_factory.mktemp("lake")) as lake:
        monkeypatch.setattr(Statements, "run", lost)
        with pytest.raises(SparkGoneError, match="SPARK_DIED"):
            lake.sql("SELECT 1")


@pytest.mark.usefixtures("ending")
def test_a_look_at_spark_while_it_ends_says_that_it_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise Py4JError("An error occurred while calling o77.sc")

    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lost))
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    with pytest.raises(SparkGoneError, match="SPARK_DIED"):
        check_spark_lives()


@pytest.mark.parametrize(("guests", "status"), [(False, "Failed"), (True, "Retrying")])
def test_a_stream_fails_by_deaths_of_its_tick_alone(
    tmp_path_factory: pytest.TempPathFactory, status: str, *, guests: bool
) -> None:
    with Lake(tmp_path_factory.mktemp("lake")) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql("CREATE STREAM s COUNT_WINDOW(2) FROM t INTO o AS SELECT _twstart AS w, 1 AS n FROM %%trows")
        engine = lake._at.engine
        engine.services.has_guests = lambda: guests
        for process in range(MOST_DEATHS):
            (record,) = lake._at.registry.streams()
            with pytest.raises(SparkGoneError):
                engine.failing.named(record, SparkGoneError("SPARK_DIED", f"process {process} has ended"))
        assert [one.status for one in lake.streams()] == [status]


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for the JVM that was started here."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        monkeypatch.setattr(session, "_STARTED", [session._Started(process, tmp_path)])
        yield process
        process.kill()


def test_a_jvm_that_is_broken_is_ended(jvm: subprocess.Popen[bytes]) -> None:
    thrown = _thrown("org.apache.spark.SparkException", _thrown("java.lang.InternalError"))
    with pytest.raises(SparkGoneError, match=r"SPARK_DIED.* was broken and has been ended: .*no such method"):
        check_error(Captured(thrown))
    assert jvm.poll() is not None


def test_an_error_that_only_speaks_of_a_broken_jvm_ends_none(jvm: subprocess.Popen[bytes]) -> None:
    check_error(
        Captured(_thrown("org.apache.spark.SparkRuntimeException", _thrown("java.lang.StackOverflowError")))
    )
    assert jvm.poll() is None


def test_the_jvm_of_others_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_STARTED", [])
    check_error(Captured(_thrown("java.lang.InternalError")))
