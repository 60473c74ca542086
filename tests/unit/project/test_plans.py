"""Plans and what comes of them: the lake becomes as the files say, in whole streams, whatever fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.storage.records.registry import Registry
from tests.properties.followed import without_spark
from tests.unit.project.conftest import READINGS, stream

if TYPE_CHECKING:
    from tests.unit.project.conftest import Project

ROWS = "INSERT INTO a USING readings TAGS ('x') VALUES ('2025-01-01 00:10:00', 1) ('2025-01-01 01:10:00', 3)"


@pytest.fixture
def made(project: Project) -> Project:
    """A project that is applied, with rows."""
    project.write("tables/readings.sql", READINGS)
    project.write("streams/hourly.sql", stream())
    project.apply()
    project.lake.sql(ROWS)
    project.lake.run()
    return project


def test_what_is_new_is_made_and_then_the_same(project: Project) -> None:
    project.write(
        "tables/readings.sql",
        f"{READINGS}\nCREATE TABLE a USING readings TAGS ('x') b USING readings TAGS ('y');",
    )
    project.write("streams/hourly.sql", stream())
    assert set(project.actions().values()) == {"new"}
    assert [one.outcome for one in project.apply()] == ["done"] * 3
    assert set(project.actions().values()) == {"same"}
    project.write(
        "streams/hourly.sql", "-- said\n" + stream().replace("avg(celsius)", "avg( celsius ) /* so */")
    )
    assert not project.plan().has_changes


def test_a_view_is_made_stays_and_is_made_anew(made: Project) -> None:
    view = (
        "CREATE MATERIALIZED VIEW hours AS SELECT window.start AS hour, max(celsius) AS warmth FROM readings "
    )
    with without_spark():
        made.write("streams/hours.sql", view + "GROUP BY window(ts, '1 hour')")
        assert made.change("main.hours").action == "new"
        assert [one.outcome for one in made.apply()] == ["done"]
        assert set(made.actions().values()) == {"same"}
        made.write("streams/hours.sql", view + "GROUP BY window(ts, '2 hours')")
        change = made.change("main.hours")
        assert (change.action, change.note) == ("changed", "made anew")
        assert [one.outcome for one in made.apply()] == ["done"]
        assert set(made.actions().values()) == {"same"}


def test_views_over_a_view_that_is_made_anew_begin_anew(made: Project) -> None:
    with without_spark():
        made.write("streams/a.sql", "CREATE MATERIALIZED VIEW a_v AS SELECT ts, celsius FROM readings;")
        made.write(
            "streams/b.sql",
            "CREATE MATERIALIZED VIEW b_v AS SELECT celsius, count(*) AS n FROM a_v GROUP BY 1;",
        )
        made.write(
            "streams/c.sql", "CREATE MATERIALIZED VIEW c_v AS SELECT n, count(*) AS m FROM b_v GROUP BY n;"
        )
        made.apply()
        made.lake.run()
        made.write(
            "streams/a.sql",
            "CREATE MATERIALIZED VIEW a_v AS SELECT ts, celsius FROM readings WHERE celsius > 1;",
        )
        change = made.change("main.a_v")
        assert change.note == "made anew; main.b_v is recomputed too; main.c_v is recomputed too"
        assert [one.outcome for one in made.apply()] == ["done"]
        made.lake.run()
        assert {one.status for one in made.lake.streams()} == {"Running"}
        assert made.lake.sql("SELECT * FROM b_v").fetchall() == [(3.0, 1)]
        assert made.lake.sql("SELECT * FROM c_v").fetchall() == [(1, 1)]


def test_history_is_counted(made: Project) -> None:
    made.write("streams/more.sql", stream("more"))
    change = made.change("main.more_stream")
    assert (change.action, change.rows) == ("new", 2)
    made.write("streams/more.sql", stream("more").replace(" STREAM_OPTIONS(FILL_HISTORY)", ""))
    assert made.change("main.more_stream").rows == 0


def test_a_changed_stream_says_by_which_clauses_and_keeps_its_output(made: Project) -> None:
    made.write("streams/hourly.sql", stream(calculation="max(celsius) AS warmth").replace("1h)", "2h)"))
    change = made.change("main.hourly_stream")
    assert [clause for clause, _, _ in change.clauses] == ["trigger", "AS"]
    assert (change.action, change.recomputed, change.rows, change.keeps_output) == ("changed", True, 2, True)
    [outcome] = made.apply()
    assert outcome.message == "output kept; recomputed: all windows, by the next run"
    assert [job.status for job in made.lake.recalculations("hourly_stream")] == ["Waiting"]


def test_streams_over_an_output_that_is_made_anew_begin_anew(made: Project) -> None:
    made.write("streams/daily.sql", stream("daily", "max(warmth) AS warmest", "hourly"))
    made.apply()
    made.write("streams/hourly.sql", stream(calculation="min(celsius) AS warmth, count(*) AS n"))
    assert made.change("main.hourly_stream").keeps_output is False
    assert made.change("main.hourly_stream").note.endswith("main.daily_stream is recomputed too")
    made.apply()
    for name in ("hourly_stream", "daily_stream"):
        assert [job.status for job in made.lake.recalculations(name)] == ["Waiting"]


def test_what_cannot_be_done_is_refused_and_leaves_the_stream(made: Project) -> None:
    made.write("tables/other.sql", "CREATE TABLE other (ts TIMESTAMP, celsius DOUBLE);")
    made.write("streams/hourly.sql", stream(source="other"))
    change = made.change("main.hourly_stream")
    assert change.action == "refused"
    assert change.error is not None
    assert change.error.code == "NOT_SUPPORTED"
    assert [one.outcome for one in made.apply()] == ["done", "failed"]
    assert "FROM readings" in made.lake.streams()[0].sql


def test_what_cannot_write_into_the_table_that_is_there_is_refused_by_the_plan(made: Project) -> None:
    made.lake.sql("CREATE TABLE taken (ts TIMESTAMP, words VARCHAR(9)); CREATE TABLE named (ts TIMESTAMP)")
    made.write("streams/taken.sql", stream("taken"))
    view = "CREATE MATERIALIZED VIEW named AS SELECT room, count(*) AS n FROM readings GROUP BY room;"
    made.write("streams/view.sql", view)
    codes = {one.name: one.error.code for one in made.plan().changes if one.error is not None}
    assert codes == {"main.taken_stream": "OUTPUT_MISMATCH", "main.named": "TABLE_EXISTS"}


def test_a_stream_that_fails_is_skipped_by_those_that_read_it_and_others_go_on(made: Project) -> None:
    made.write("streams/bad.sql", f"-- bad\n{stream('bad', source='nothing')}")
    made.write("streams/after.sql", stream("after", "max(warmth) AS warmest", "bad"))
    made.write("streams/good.sql", stream("good"))
    change = made.change("main.bad_stream")
    assert change.error is not None
    assert change.error.place is not None
    place = change.error.place
    assert (place.file, place.line) == ("streams/bad.sql", 2)
    assert place.text.splitlines()[1][place.column - 1 :].startswith("nothing")
    outcomes = {one.change.name: one.outcome for one in made.apply()}
    assert outcomes == {
        "main.bad_stream": "failed",
        "main.good_stream": "done",
        "main.after_stream": "skipped",
    }
    made.write("streams/bad.sql", stream("bad"))
    assert [one.outcome for one in made.apply()] == ["done", "done"]


def test_a_crash_within_a_change_leaves_it_to_the_next_time(
    made: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write("streams/hourly.sql", stream(calculation="max(celsius) AS warmth"))

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Registry, "update", crash)
        with pytest.raises(KeyboardInterrupt):
            made.apply()
    assert made.change("main.hourly_stream").action == "changed"
    # What is written down first recomputes windows by the definition that is there.
    assert [job.status for job in made.lake.recalculations("hourly_stream")] == ["Waiting"]
    made.apply()
    assert not made.plan().has_changes


def test_columns_and_tags_are_added_and_tags_set(made: Project) -> None:
    wider = READINGS.replace("DOUBLE)", "DOUBLE, bar DOUBLE)").replace("(20))", "(20), floor INT)")
    made.write("tables/readings.sql", f"{wider} CREATE TABLE a USING readings TAGS ('y', 1);")
    assert made.actions()["main.readings"] == "changed"
    assert made.change("main.readings", "dev").action == "left"
    made.apply()
    made.apply()
    assert not made.plan().has_changes
    assert made.lake.sql("SELECT DISTINCT room, floor, bar FROM readings").fetchall() == [("y", 1, None)]


def test_comments_that_a_file_says_are_given(made: Project) -> None:
    text = READINGS.replace("DOUBLE)", "DOUBLE COMMENT 'by day', bar DOUBLE COMMENT 'of air')")
    made.write("tables/readings.sql", text.replace(");", ") COMMENT 'the plant''s';", 1))
    assert "COMMENT 'the plant\\'s'" in made.change("main.readings").note
    made.apply()
    assert not made.plan().has_changes
    shown = made.lake.sql("DESCRIBE readings")
    assert [row[3] for row in shown.fetchall() if row[3]] == ["by day", "of air"]
    assert shown.message == "main.readings: the plant's"
    made.write("tables/readings.sql", text.replace(" COMMENT 'by day'", ""))
    assert not made.plan().has_changes


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (READINGS.replace("DOUBLE", "INT"), "celsius is DOUBLE there and INT in the file"),
        (READINGS.replace(", celsius DOUBLE", ""), "it has celsius, which is not in the file"),
        (READINGS.replace("TAGS (room VARCHAR(20))", "").replace("STABLE", "TABLE"), "one of both has tags"),
    ],
)
def test_a_table_that_is_another_is_refused(made: Project, written: str, said: str) -> None:
    made.write("tables/readings.sql", written)
    change = made.change("main.readings")
    assert change.error is not None
    assert change.error.code == "TABLE_DIFFERS"
    assert said in change.error.message


def test_what_no_file_defines_goes_by_prune_only(made: Project) -> None:
    made.lake.sql("CREATE TABLE notes (ts TIMESTAMP, n INT)")
    made.lake.sql("CREATE DATABASE others; CREATE TABLE others.t (ts TIMESTAMP)")
    made.write("streams/hourly.sql", "")
    assert made.actions() == {
        "main.readings": "same",
        "main.hourly_stream": "unlisted",
        "main.hourly": "unlisted",
        "main.notes": "unlisted",
    }
    assert made.apply() == []
    made.apply(prune=True)
    assert made.actions() == {"main.readings": "same"}
    assert made.lake.streams() == []
    assert made.lake.sql("SHOW others.TABLES").fetchall() == [("t", None)]


def test_a_table_that_a_stream_reads_is_not_pruned(made: Project) -> None:
    made.write("tables/readings.sql", "CREATE DATABASE plant;")
    assert made.actions(prune=True) == {
        "plant": "new",
        "main.hourly_stream": "same",
        "main.readings": "unlisted",
    }


def test_an_environment_stands_beside_the_lake(made: Project) -> None:
    made.write("streams/daily.sql", stream("daily", "max(warmth) AS warmest", "hourly"))
    assert made.actions("dev") == {
        "main__dev": "new",
        "main.readings": "same",
        "main__dev.hourly_stream": "new",
        "main__dev.daily_stream": "new",
    }
    made.apply("dev")
    made.lake.sql("INSERT INTO a VALUES ('2025-01-01 02:10:00', 5)")
    made.lake.run()
    assert made.lake.sql("SELECT warmest FROM main__dev.daily").fetchall() == [(1.0,)]
    assert made.lake.sql("SELECT count(*) FROM hourly").fetchall() == [(2,)]
    made.write("streams/hourly.sql", "")
    made.write("streams/daily.sql", stream("daily", "max(celsius) AS warmth"))
    assert made.actions("dev", prune=True)["main__dev.hourly_stream"] == "dropped"
    assert "main.hourly_stream" not in made.actions("dev", prune=True)


def test_the_tree_is_kept_too(project: Project) -> None:
    query = (
        "CREATE CQ mean RESAMPLE EVERY 1h BEGIN SELECT avg(t) INTO root.mean.::(t) FROM root.ln.* "
        "GROUP BY(1h) ALIGN BY DEVICE END;"
    )
    series = "-- dialect: iotdb\nCREATE DATABASE root.ln;\nCREATE TIMESERIES root.ln.d.t DOUBLE;\n"
    project.write("streams/tree.sql", series + query)
    assert [one.outcome for one in project.apply()] == ["done"] * 3
    assert not project.plan().has_changes
    project.write("streams/tree.sql", series.replace("DOUBLE", "INT32") + query.replace("1h", "2h"))
    assert project.actions() == {"root.ln": "same", "mean": "changed", "root.ln.d.t": "refused"}
    project.write("streams/tree.sql", series + query.replace("1h", "2h"))
    project.apply()
    assert not project.plan().has_changes
    project.write("streams/tree.sql", series)
    project.apply(prune=True)
    assert project.lake.sql("SHOW CQS", dialect="iotdb").fetchall() == []


def test_a_continuous_query_that_fails_is_as_it_was(project: Project) -> None:
    text = (
        "-- dialect: iotdb\nCREATE CQ mean RESAMPLE EVERY 1h BEGIN SELECT avg(t) INTO root.mean.::(t) "
        "FROM root.ln.* GROUP BY(1h) ALIGN BY DEVICE END;"
    )
    project.write("streams/tree.sql", text)
    project.apply()
    project.write("streams/tree.sql", text.replace("1h", "10ms"))
    assert [one.error.code if one.error else "" for one in project.apply()] == ["CQ_INVALID"]
    project.write("streams/tree.sql", text)
    assert not project.plan().has_changes
