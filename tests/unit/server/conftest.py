"""The HTTP API over a small lake on disk; nothing here starts Spark."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from lakestream.clock import SystemClock
from lakestream.lake import Lake
from lakestream.language.model import Duration, PeriodTrigger
from lakestream.server.api.app import create_app
from lakestream.server.api.asking import Service
from lakestream.server.api.guard import Keys
from lakestream.server.news.live import Live, Rates
from lakestream.server.news.metrics import Metrics
from lakestream.server.process.statements import Statements
from lakestream.server.shown.reader import Reader
from lakestream.settings import Settings
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.audit import Audit
from lakestream.storage.records.registry import (
    Compiled,
    Failure,
    Progress,
    Recalculation,
    StreamRecord,
    Totals,
)
from lakestream.storage.records.tokens import Tokens
from lakestream.triggers.period import Period

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

TABLES = """
CREATE TABLE power (ts TIMESTAMP, watts DOUBLE);
CREATE TABLE power_hourly (hour TIMESTAMP, n BIGINT);
INSERT INTO power VALUES ('2025-01-01 08:10:00', 700), ('2025-01-01 08:50:00', 740);
INSERT INTO power_hourly VALUES ('2025-01-01 08:00:00', 2), ('2025-01-01 09:00:00', 0);
"""
STREAM = "CREATE STREAM hourly PERIOD(1h) FROM power INTO power_hourly AS SELECT _tprev_localtime, 1 AS n"
NOON_US = 1_735_732_800_000_000


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Return a lake with a stream that has ticked once and failed once."""
    root = str(tmp_path / "lake")
    with Lake(root, settings=Settings()) as lake:
        lake.sql(TABLES)
        registry = lake._at.registry
        record = StreamRecord(
            "u1",
            "main",
            "hourly",
            STREAM,
            "Running",
            NOON_US,
            0,
            "id",
            "main.power_hourly",
            source="main.power",
            zone="UTC",
            compiled=Compiled("by_row", exact=False, reads=("main.power",)),
            current="main",
        )
        registry.add(record)
        done = Progress("u1", 1, 1, 2, 1, 0, 0.25, NOON_US)
        progress = replace(done, kind="period", windows=1, totals=Totals(rows_in=2))
        registry.write_progress([progress])
        registry.put_failure(Failure("f1", "u1", NOON_US + 1, 2, "COMMIT_FAILED", "no space left"))
        job = Recalculation("r1", "u1", NOON_US, None, False, "Running", NOON_US, 1, cuts=(1, 2))
        registry.put_recalculation(job)
    return root


Serve = "Callable[..., AbstractContextManager[TestClient]]"


@pytest.fixture
def serve(root: str) -> Callable[..., AbstractContextManager[TestClient]]:
    """Serve the lake to a client."""

    @contextmanager
    def serving(
        token: str | None = None, names: tuple[str, ...] = ("localhost",), seconds: float = 0
    ) -> Iterator[TestClient]:
        first = Lake(root, settings=Settings(), create=False)

        def opened(confirm: Callable[[str], bool] | None = None) -> Lake:
            return first.another(confirm)

        clock = SystemClock()
        period = Period(PeriodTrigger(Duration(1, "h"), Duration(0, "s")), "UTC", NOON_US)
        reader = Reader(opened(), Rates(clock.monotonic), lambda: {"u1": period})
        metrics = Metrics(reader.statuses, reader.waiting, lambda: 0)
        statements = Statements(opened, seconds, first.queries)
        service = Service(reader, statements, Live(), Audit(Layout(root), clock), metrics.text, lambda: "ok")
        app = create_app(service, names=frozenset(names), keys=Keys(token, Tokens(Layout(root))))
        yield TestClient(app, base_url="http://127.0.0.1:8600", follow_redirects=False)
        statements.close()

    return serving


@pytest.fixture
def client(serve: Callable[..., AbstractContextManager[TestClient]]) -> Iterator[TestClient]:
    with serve() as made:
        yield made
