"""Operators on a lake, by Airflow itself: run in an environment of its own (`make integrations`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from lakestream import Lake
from lakestream.errors import LakestreamError, StatementError
from lakestream.integrations.airflow import (
    LakestreamRunOperator,
    LakestreamSQLOperator,
    LakestreamVerifyOperator,
)

if TYPE_CHECKING:
    from pathlib import Path

TABLES = """
CREATE TABLE temps (ts TIMESTAMP, room VARCHAR(10), v DOUBLE);
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM temps PARTITION BY room INTO minutes
  AS SELECT _twstart AS minute, avg(v) AS mean FROM %%trows;
"""


@pytest.fixture
def root(tmp_path: Path) -> str:
    with Lake(tmp_path / "lake") as lake:
        lake.sql(TABLES)
        lake.sql("INSERT INTO temps VALUES ('2026-01-01 00:00:00', 'a', 1) ('2026-01-01 00:01:00', 'a', 3)")
    return str(tmp_path / "lake")


def done(operator: Any, **context: Any) -> Any:
    """Render a task's templates and run it, as Airflow's worker does."""
    operator.render_template_fields(context)
    return operator.execute(context)


def test_the_three_work_in_a_dag(root: str) -> None:
    with DAG("plant", schedule=None):
        rows = LakestreamSQLOperator(
            task_id="rows", lake=root, sql="INSERT INTO temps VALUES ('{{ ds }} 00:02:00', 'a', 5)"
        )
        run = LakestreamRunOperator(task_id="run", lake="{{ root }}")
        rows >> run
    assert run.upstream_task_ids == {"rows"}
    assert done(rows, ds="2026-01-01") == "inserted 1 row"
    assert done(run, root=root)["main.s"]["rows_out"] == 2
    look = LakestreamSQLOperator(
        task_id="look", lake=root, sql="SELECT mean FROM minutes ORDER BY minute", limit=1
    )
    assert done(look) == [{"mean": 1.0}]


def test_a_file_beside_the_dag_is_read(root: str, tmp_path: Path) -> None:
    (tmp_path / "look.sql").write_text("SELECT count(*) AS n FROM temps WHERE room = '{{ room }}'")
    with DAG("plant", schedule=None, template_searchpath=str(tmp_path)):
        look = LakestreamSQLOperator(task_id="look", lake=root, sql="look.sql")
    look.resolve_template_files()
    assert done(look, room="a") == [{"n": 2}]


def test_what_fails_fails_the_task(root: str) -> None:
    with pytest.raises(StatementError, match="nothing"):
        done(LakestreamSQLOperator(task_id="x", lake=root, sql="SELECT * FROM nothing"))
    with pytest.raises(LakestreamError, match="there is no lake"):
        done(LakestreamRunOperator(task_id="y", lake=f"{root}/nowhere"))
    with Lake(root) as lake:
        lake.sql("DROP TABLE minutes; CREATE TABLE minutes (ts TIMESTAMP, x INT)")
    with pytest.raises(LakestreamError, match=r"STREAM_FAILED: main\.s"):
        done(LakestreamRunOperator(task_id="z", lake=root, streams=["s"]))


def test_rows_that_differ_fail_the_task_for_good(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        stream, holds, equal_rows, differing_rows, differing = "main.s", False, 1, 1, ("here",)

    verify = LakestreamVerifyOperator(task_id="v", lake=root, stream="{{ stream }}", start="2026-01-01")
    monkeypatch.setattr(Lake, "verify", lambda *_asked: Found)
    with pytest.raises(AirflowFailException, match=r"1 rows of main\.s differ"):
        done(verify, stream="s")
    Found.holds, Found.differing_rows = True, 0
    assert done(verify, stream="s") == {"equal_rows": 1, "differing_rows": 0}
