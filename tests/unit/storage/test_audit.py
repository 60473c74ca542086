"""What was noted of requests, and how long it stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from deltalake.exceptions import DeltaError

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.engine.base.instants import to_micros
from lakestream.errors import StatementError
from lakestream.storage.records import audit as audits
from lakestream.storage.records.audit import Audit

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2025, 1, 1, tzinfo=UTC)


def noted(audit: Audit) -> list[str]:
    return sorted(audit.rows()["did"].to_pylist())


def test_what_is_old_goes(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as lake:
        clock = ManualClock(START)
        audit = Audit(lake._at.layout, clock)
        assert audit.remove(to_micros(START)) == 0
        for did in ("first", "second", "third"):
            audit.note("anyone", "::1", did, "ok")
            clock.advance(timedelta(hours=1))
        from_second = to_micros(START + timedelta(hours=1))
        assert audit.remove(from_second, dry_run=True) == 1
        assert noted(audit) == ["first", "second", "third"]
        assert audit.remove(from_second) == 1
        assert noted(audit) == ["second", "third"]
        audit.note("anyone", "::1", "fourth", "ok")
        assert noted(audit) == ["fourth", "second", "third"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), DeltaError("no space")])
def test_what_cannot_be_noted_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def full(*_: object) -> None:
        raise error

    with Lake(tmp_path / "lake") as lake:
        audit = Audit(lake._at.layout, ManualClock(START))
        with monkeypatch.context() as patched:
            patched.setattr(audits, "append", full)
            with pytest.raises(StatementError, match="SYNTAX"), audit.noting("ann", "::1", "SELEC"):
                raise StatementError("SYNTAX", "bad")
            with audit.noting("ann", "::1", "NOTIFY('https://x.example/?key=s3cret')"):
                pass
        assert "'who': 'ann'" in caplog.text
        assert "'outcome': 'SYNTAX'" in caplog.text
        assert "s3cret" not in caplog.text
        with audit.noting("ann", "::1", "third"):
            pass
        assert noted(audit) == ["third"]


@pytest.mark.parametrize(("keep", "left"), [(86_400, ["new"]), (0, [])])
def test_maintenance_lets_it_go(tmp_path: Path, keep: float, left: list[str]) -> None:
    with Lake(tmp_path / "lake", settings=Settings(audit_retention_seconds=keep)) as lake:
        old = ManualClock(lake._at.system_clock.now() - timedelta(days=2))
        Audit(lake._at.layout, old).note("anyone", "::1", "old", "ok")
        audit = Audit(lake._at.layout, lake._at.system_clock)
        audit.note("anyone", "::1", "new", "ok")
        for dry_run in (True, False):
            done = {table.table: table for table in lake.maintain(dry_run=dry_run)}
            assert done["_lakestream/audit"].rows_deleted == 2 - len(left)
        assert noted(audit) == left
