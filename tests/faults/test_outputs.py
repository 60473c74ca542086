"""What others may do to a stream's output: it goes on, or stops by name."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from tests.faults.meters import STREAM, TUMBLING, Story, expected, rows_of, same
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.spark]


@pytest.fixture
def story(tmp_path: Path, spark: SparkSession) -> Story:
    """A stream that has written windows in several commits."""
    story = Story(tmp_path / "lake", spark, TUMBLING).begin()
    story.write(("a", 1, 1), ("b", 7, 2), ("a", 33, 3), ("b", 31, 4))
    story.run()
    story.write(("a", 52, 5), ("b", 55, 6))
    story.run()
    story.check()
    return story


def output(story: Story) -> DeltaTable:
    return DeltaTable(story.output)


def more(story: Story) -> None:
    """Make new windows fire, and an old one again."""
    front = max(at for _, at in story.readings)
    story.write(("a", front + 12, 1), ("b", front + 13, 2), ("a", 3, front))
    story.step()
    story.step()


def recalculated(story: Story) -> None:
    with story.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} FROM '2025-01-01 00:00:00'")
    story.run()
    story.check()


def compact(story: Story) -> None:
    output(story).optimize.compact()


def compact_and_vacuum(story: Story) -> None:
    output(story).optimize.compact()
    output(story).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def checkpoint(story: Story) -> None:
    output(story).create_checkpoint()


def spark_sql(statement: str) -> Callable[[Story], None]:
    def touch(story: Story) -> None:
        story.spark.sql(statement.format(t=f"delta.`{story.output}`"))

    return touch


UPKEEP = {
    "compact": compact,
    "vacuum": compact_and_vacuum,
    "checkpoint": checkpoint,
    "optimize": spark_sql("OPTIMIZE {t}"),
    "properties": spark_sql("ALTER TABLE {t} SET TBLPROPERTIES ('theirs' = '1')"),
    "no_rows": spark_sql("INSERT INTO {t} SELECT * FROM {t} WHERE false"),
}


@pytest.mark.parametrize("upkeep", leaving(UPKEEP, lambda name: name != "compact"))
def test_upkeep_of_an_output_disturbs_nothing(story: Story, upkeep: str) -> None:
    UPKEEP[upkeep](story)
    more(story)
    story.crash("C6b")
    UPKEEP[upkeep](story)
    story.run()
    story.check()


TOUCHES = {
    "deleted": lambda story: output(story).delete("n = 0"),
    "deleted by Spark": spark_sql("DELETE FROM {t} WHERE n = 0"),
    "updated by Spark": spark_sql("UPDATE {t} SET n = n + 1"),
    "inserted by Spark": spark_sql("INSERT INTO {t} SELECT * FROM {t} LIMIT 1"),
    "merged by Spark": spark_sql("MERGE INTO {t} o USING {t} n ON o.at = n.at WHEN MATCHED THEN DELETE"),
    "overwritten by Spark": spark_sql("INSERT OVERWRITE {t} SELECT * FROM {t} LIMIT 1"),
}


def touched(story: Story, touch: str) -> None:
    TOUCHES[touch](story)
    more(story)
    story.run()
    status = story.status()
    code = (status.last_error or "").partition(": ")[0]
    assert (status.status, code) == ("Failed", "OUTPUT_TOUCHED")
    assert story.status("z").lag == 0


@pytest.mark.long
def test_an_output_that_was_replaced_leads_on_when_it_is_restored_and_computed_anew(story: Story) -> None:
    """What CREATE OR REPLACE leaves has other columns: those of the query, without what was said of them."""
    before = output(story).version()
    spark_sql("CREATE OR REPLACE TABLE {t} USING delta AS SELECT * FROM {t}")(story)
    more(story)
    story.run()
    status = story.status()
    assert (status.status, (status.last_error or "")[:14]) == ("Failed", "OUTPUT_CHANGED")
    spark_sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {before}")(story)
    with story.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} RESYNC")
    story.run()
    story.check()
    assert story.verify()


@pytest.mark.parametrize("touch", leaving(TOUCHES, lambda name: name != "deleted"))
def test_rows_that_others_changed_stop_the_stream_and_resync_leads_out(story: Story, touch: str) -> None:
    touched(story, touch)
    with story.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} RESYNC")
    story.run()
    story.check()
    assert story.verify()


@pytest.mark.long
def test_a_started_stream_leaves_the_rows_as_they_are_until_they_are_recalculated(story: Story) -> None:
    touched(story, "deleted")
    with story.opened() as lake:
        lake.sql(f"START STREAM {STREAM}")
    more(story)
    story.run()
    status = story.status()
    assert (status.status, status.last_error) == ("Running", None)
    with story.opened() as lake:
        assert not lake.verify(STREAM).holds
    recalculated(story)
    assert story.verify()


def test_a_dropped_output_is_made_again(story: Story) -> None:
    with story.opened() as lake:
        lake.sql("DROP TABLE o")
    more(story)
    story.run()
    assert story.status().status == "Running"
    recalculated(story)


def test_an_output_that_another_process_dropped_is_made_again(story: Story) -> None:
    with story.opened() as running:
        running.run()
        with story.opened() as other:
            other.sql("DROP TABLE o")
        more(story)
        assert not running.run().failed
    recalculated(story)


def test_an_output_that_another_process_dropped_is_recalculated_whole(story: Story) -> None:
    with story.opened() as running:
        running.run()
        with story.opened() as other:
            other.sql("DROP TABLE o")
        running.sql(f"RECALCULATE STREAM {STREAM} FROM '2025-01-01 00:00:00'")
        running.run()
    story.check()


def rewound(story: Story) -> None:
    story.run()
    status = story.status()
    assert status.status == "Failed"
    error = status.last_error or ""
    assert error.startswith("OUTPUT_REWOUND: ")
    assert "RECALCULATE STREAM main.s RESYNC" in error
    neighbour = story.status("z")
    assert (neighbour.status, neighbour.lag) == ("Running", 0)
    with story.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} RESYNC")
    story.run()
    story.check()
    more(story)
    story.run()
    story.check()


def test_a_restored_output_stops_the_stream(story: Story) -> None:
    output(story).restore(1)
    more(story)
    rewound(story)


def test_an_output_restored_by_spark_stops_the_stream(story: Story) -> None:
    from delta.tables import DeltaTable as SparkTable

    SparkTable.forPath(story.spark, story.output).restoreToVersion(1)
    more(story)
    rewound(story)


def test_an_output_put_back_to_an_old_copy_stops_the_stream(story: Story, tmp_path: Path) -> None:
    shutil.copytree(story.output, tmp_path / "copy")
    more(story)
    story.run()
    shutil.rmtree(story.output)
    shutil.copytree(tmp_path / "copy", story.output)
    more(story)
    rewound(story)


def test_an_output_with_another_column_stops_the_stream(story: Story) -> None:
    output(story).alter.add_columns([Field("note", PrimitiveType("string"))])
    more(story)
    story.run()
    status = story.status()
    assert status.status == "Failed"
    assert (status.last_error or "").startswith("OUTPUT_CHANGED: ")
    assert story.status("z").lag == 0


def test_an_output_of_the_users_keeps_its_own_rows(tmp_path: Path, spark: SparkSession) -> None:
    """A crash between the commit and its record: rows by key, none of them twice."""
    story = Story(tmp_path / "lake", spark, TUMBLING)
    with story.opened() as lake:
        lake.sql("CREATE STABLE o (at TIMESTAMP, n BIGINT, total BIGINT) TAGS (tag_tbname VARCHAR(64))")
        lake.insert("o", [{"tbname": "mine", "tag_tbname": "mine", "at": "2025-01-01", "n": 7, "total": 7}])
    story.begin()
    story.write(("a", 1, 1), ("b", 7, 2), ("a", 33, 3), ("b", 31, 4))
    story.crash("C6b")
    story.run()
    same(rows_of(story.output), [("mine", 0, 7, 7), *expected(TUMBLING, story.readings)])
