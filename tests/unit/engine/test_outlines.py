"""When the clock makes a stream due, as it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakestream.language.model import Duration, PeriodTrigger
from lakestream.observation.observe import Outline, Outlines
from lakestream.storage.records.registry import Compiled, StreamRecord
from lakestream.triggers.period import Period

NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)
NOW_US = int(NOW.timestamp()) * 1_000_000
SQL = "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o AS SELECT _twstart, 1 AS n"
COMPILED = Compiled("by_row", exact=False)
RECORD = StreamRecord("u", "main", "s", SQL, "Running", NOW_US, 0, "id", "main.o", "main.t", "UTC", COMPILED)


def test_a_stream_is_due_when_its_alarm_rings() -> None:
    later = NOW + timedelta(seconds=7)
    period = Period(PeriodTrigger(Duration(10, "m"), Duration(0, "s")), "UTC", NOW_US)
    shown = Outlines().of(RECORD, None, NOW_US)
    assert shown == Outline("INTERVAL(10s) SLIDING(10s)")
    assert Outlines().of(RECORD, later, NOW_US).next_due_us == NOW_US + 7_000_000
    assert Outlines().of(RECORD, period, NOW_US).next_due_us == NOW_US + 600_000_000
    assert Outlines().of(replace(RECORD, status="Stopped"), later, NOW_US) == shown
