"""The files of a project: what they hold, and that all of what is wrong is told, where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.errors import ConfigError, ProjectError
from lakestream.language.model import CreateStream
from lakestream.project.definitions import define
from lakestream.project.environments import in_environment
from lakestream.project.files import read_project
from tests.unit.project.conftest import READINGS, stream

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "lakestream.toml", "")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def errors(folder: Path, profile: str | None = None) -> list[tuple[str, str, int, int]]:
    with pytest.raises(ProjectError) as raised:
        define(read_project(folder, profile))
    found = [(error.code, error.place) for error in raised.value.errors]
    assert all(place is not None and place.text for _, place in found)
    return [(code, place.file or "", place.line, place.column) for code, place in found if place]


def test_all_errors_of_all_files_are_told(folder: Path) -> None:
    write(folder, "tables/a.sql", f"{READINGS}\nCREATE TABLE broken (ts TIMESTAMP;\nDROP TABLE readings;")
    write(folder, "streams/b.sql", "-- comment\n  CREATE STREAM s INTERVALL(1h) FROM readings;")
    write(folder, "streams/c.sql", "SELECT '${nothing}'")
    write(folder, "streams/d.sql", "-- dialect: tdengin\nSELECT 1")
    assert errors(folder) == [
        ("SYNTAX", "tables/a.sql", 2, 34),
        ("UNKNOWN_TRIGGER", "streams/b.sql", 2, 19),
        ("PARAMETER_MISSING", "streams/c.sql", 1, 9),
        ("UNKNOWN_DIALECT", "streams/d.sql", 1, 13),
    ]


def test_what_is_wrong_among_the_statements_is_told(folder: Path) -> None:
    write(folder, "tables/a.sql", f"{READINGS}\n  INSERT INTO t VALUES (NOW, 1);")
    write(folder, "tables/b.sql", READINGS)
    assert errors(folder) == [
        ("NOT_A_DEFINITION", "tables/a.sql", 2, 3),
        ("DEFINED_TWICE", "tables/b.sql", 1, 1),
    ]


def test_streams_that_read_from_one_another_are_told(folder: Path) -> None:
    write(folder, "streams/a.sql", stream("one", source="two") + stream("two", source="one"))
    [(code, *_)] = errors(folder)
    assert code == "STREAM_CYCLE"


def test_an_unused_parameter_is_told_at_its_line(folder: Path) -> None:
    write(folder, "lakestream.toml", "[parameters]\nroom = 'a'\n[profiles.dev.parameters]\nroof = 1")
    write(folder, "tables/a.sql", READINGS.replace("room", "`${room}`"))
    assert len(read_project(folder)) == 1
    assert errors(folder, "dev") == [("PARAMETER_UNUSED", "lakestream.toml", 4, 1)]


def test_a_profile_has_parameters_of_its_own(folder: Path) -> None:
    write(folder, "lakestream.toml", "[parameters]\nroom = 'a'\n[profiles.dev.parameters]\nroom = 'b'")
    write(folder, "tables/a.sql", "CREATE TABLE `${room}` (ts TIMESTAMP);")
    assert [one.name for one in define(read_project(folder))] == ["main.a"]
    assert [one.name for one in define(read_project(folder, "dev"))] == ["main.b"]


def test_what_is_read_comes_before_what_reads_it(folder: Path) -> None:
    write(folder, "streams/a.sql", f"USE plant;\n{stream('daily', source='hourly')}\n{stream('hourly')}")
    write(folder, "tables/z.sql", f"CREATE DATABASE plant; USE plant; {READINGS}")
    found = define(read_project(folder))
    names = ["plant", "plant.readings", "plant.hourly_stream", "plant.daily_stream"]
    assert [one.name for one in found] == names


def test_statements_of_all_dialects_are_read(folder: Path) -> None:
    write(folder, "streams/tree.sql", "-- The tree.\n-- dialect: iotdb\nCREATE DATABASE root.ln;")
    write(
        folder,
        "streams/rule.sql",
        "--dialect: ekuiper\nCREATE STREAM r WITH (TIMESTAMP = 'ts') INTO o "
        "AS SELECT count(*) AS n FROM readings GROUP BY TUMBLINGWINDOW(ss, 10)",
    )
    assert {one.kind: one.name for one in define(read_project(folder))} == {
        "tree database": "root.ln",
        "stream": "main.r",
    }


def test_a_folder_without_its_file_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read_project(tmp_path)
    assert raised.value.code == "NO_PROJECT"


def test_an_environment_has_names_and_outputs_of_its_own(folder: Path) -> None:
    chained = (
        "CREATE STREAM `plant`.`two_stream` INTERVAL(1d) SLIDING(1d) FROM hourly PARTITION BY hour INTO two\n"
        "  AS WITH hourly AS (SELECT * FROM main.hourly)\n"
        "  SELECT _twstart, count(*) FROM hourly, main . hourly AS h, readings WHERE h.hour = _twstart;"
    )
    write(folder, "streams/a.sql", stream() + chained)
    write(folder, "tables/a.sql", READINGS)
    streams = [
        one for one in in_environment(read_project(folder), "dev") if isinstance(one.statement, CreateStream)
    ]
    first, second = (one.text.strip() for one in streams)
    assert first == (
        stream()
        .replace("hourly_stream", "`main__dev`.`hourly_stream`")
        .replace("INTO hourly", "INTO `main__dev`.`hourly`")
    ).rstrip(";")
    assert "STREAM `plant__dev`.`two_stream`" in second
    assert "FROM `main__dev`.`hourly` PARTITION BY hour INTO `main__dev`.`two`" in second
    assert "WITH hourly AS (SELECT * FROM `main__dev`.`hourly`)" in second
    assert "FROM hourly, `main__dev`.`hourly` AS h, readings WHERE" in second


def test_an_output_outside_of_the_lake_has_no_environment(folder: Path) -> None:
    write(folder, "streams/a.sql", stream().replace(" AS SELECT", " LOCATION '/o' AS SELECT"))
    with pytest.raises(ProjectError) as raised:
        in_environment(read_project(folder), "dev")
    assert [error.code for error in raised.value.errors] == ["NOT_SUPPORTED"]
