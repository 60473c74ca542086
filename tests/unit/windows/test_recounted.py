"""A recalculation of an exact stream of counts: its windows stay those of all rows, whatever its range."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake
from lakestream.storage.delta import read_arrow
from lakestream.storage.sessions.jobs import OwnSession
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1_735_689_600


@pytest.mark.parametrize(("size", "step"), [(4, 4), (4, 2), (4, 1), (5, 2), (3, 3), (4, 3)])
def test_windows_over_the_ends_of_its_range_stay(
    size: int, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnSession, "get", lambda _: pytest.fail("Spark was asked"))
    drawn = Random(size * 10 + step)
    numbers = range(1, 60)
    rows = pa.table(
        {
            "ts": pa.array([(BEGIN + number) * 1_000_000 for number in numbers], pa.timestamp("us", "UTC")),
            "g": [drawn.randrange(2) for _ in numbers],
            "v": [*numbers],
        }
    )
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, g BIGINT, v BIGINT)")
        lake.sql(
            f"CREATE STREAM s COUNT_WINDOW({size}, {step}) FROM t PARTITION BY g "
            "STREAM_OPTIONS(EXACT) INTO o AS "
            "SELECT _twstart AS w, _twend AS e, count(*) AS n, sum(v) AS total FROM %%trows"
        )
        write_deltalake(f"{lake.root}/main/t", rows, mode="append")
        assert not lake.run().failed
        before = read_arrow(f"{lake.root}/main/o").sort_by([("w", "ascending"), ("g", "ascending")])
        assert before.num_rows > 8
        for _ in range(6):
            low, high = (f"2025-01-01 00:00:{at / 4:06.3f}" for at in sorted(drawn.sample(range(236), 2)))
            lake.sql(f"RECALCULATE STREAM s FROM '{low}' TO '{high}'")
            assert not lake.run().failed
            after = read_arrow(f"{lake.root}/main/o").sort_by([("w", "ascending"), ("g", "ascending")])
            assert after.equals(before), (low, high)
