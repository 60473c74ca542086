"""The lines of the daemon's log."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestream.clock import SystemClock
from lakestream.engine.rounds.failing import Failing, Retries
from lakestream.errors import StorageError, StreamError
from lakestream.server.process.logs import FORMATS, write_logs
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.errors import LakestreamError


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Leave the loggers as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    named = [logging.getLogger(name) for name in ("lakestream", "lakestream.states")]
    levels = [logger.level for logger in named]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger, before in zip(named, levels, strict=True):
        logger.setLevel(before)


def test_a_line_is_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    write_logs(Settings(log_format="json"))
    logging.getLogger("lakestream.states").error("a has %s", "failed", extra={"stream": "a", "code": "X"})
    logging.getLogger("lakestream.ticks").debug("not told")
    logging.getLogger("elsewhere").info("not told")
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told.pop("at").endswith("Z")
    assert told == {
        "level": "error",
        "logger": "lakestream.states",
        "message": "a has failed",
        "stream": "a",
        "code": "X",
    }
    write_logs(Settings(log_level="debug"))
    logging.getLogger("lakestream.ticks").debug("a tick")
    assert capsys.readouterr().err.endswith("Z DEBUG a tick\n")


def test_a_traceback_stays_in_its_line() -> None:
    try:
        raise ValueError("x")  # noqa: TRY301 - there has to be a traceback
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("n", logging.ERROR, "f", 1, "broken", None, info)
    assert "ValueError: x" in json.loads(FORMATS["json"]().format(record))["traceback"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            StreamError("CHANGES_LOST", "version 7 is gone"),
            "ERROR main.s has failed: CHANGES_LOST: version 7 is gone",
        ),
        (
            StorageError("COMMIT_FAILED", "disk full"),
            "WARNING main.s is tried again: COMMIT_FAILED: disk full",
        ),
    ],
)
def test_each_failure_is_a_line(
    error: LakestreamError, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_logs(Settings())
    nothing = SimpleNamespace(known={}, update=lambda *_, **__: record, put_failure=lambda _: None)
    record: Any = SimpleNamespace(uuid="u", database="main", name="s", status="Retrying")
    clock = SystemClock()
    local = SimpleNamespace(layout=SimpleNamespace(is_local=True))
    services = SimpleNamespace(
        is_ours=lambda _: True, registry=nothing, clock=clock, catalog=local, settings=Settings()
    )
    failing = Failing(cast("Any", services), cast("Any", nothing), Retries())
    monkeypatch.setattr(Failing, "note", lambda *_: None)
    failing.fail(record, error)
    assert capsys.readouterr().err.partition("Z ")[2].strip().startswith(line)
    failing.recover(cast("Any", SimpleNamespace(record=record)))
    assert "main.s has recovered" in capsys.readouterr().err
