"""Secrets that a url names come from the settings: the lake keeps the name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.errors import ConfigError, StatementError
from lakestream.lake import Lake
from lakestream.settings import Settings
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "ge/heim & so"
STREAM = """
CREATE STREAM told INTERVAL(1m) SLIDING(1m) FROM loads
  NOTIFY('{url}') ON (WINDOW_CLOSE) INTO told_out AS SELECT _twstart AS w, count(*) AS n FROM %%trows
"""


@pytest.fixture
def catcher() -> Iterator[Catcher]:
    caught = Catcher()
    yield caught
    caught.close()


def opened(root: Path, secrets: object) -> Lake:
    return Lake(root, settings=Settings(notify_hosts=("localhost",), secrets=secrets))


def run(lake: Lake, url: str) -> list[tuple[object, ...]]:
    lake.sql("CREATE TABLE loads (ts TIMESTAMP, watts DOUBLE)")
    lake.sql(STREAM.format(url=url))
    lake.insert("loads", [{"ts": f"2025-01-01 08:0{minute}:00", "watts": 1} for minute in range(3)])
    lake.run()
    return lake.sql("SELECT sent, message FROM information_schema.ins_stream_targets").fetchall()


@pytest.mark.parametrize(
    "given", [{"plant": SECRET}, '{"plant": "ge/heim & so"}'], ids=["a table", "as text"]
)
def test_a_named_secret_is_sent_and_kept_in_no_file(tmp_path: Path, catcher: Catcher, given: object) -> None:
    root = tmp_path / "lake"
    with opened(root, given) as lake:
        assert "heim" not in str(lake.settings)
        targets = run(lake, f"{catcher.url}/in?key={{{{secrets.plant}}}}&of={{{{secrets.plant}}}}")
        assert [(sent, message) for sent, message in targets] == [(2, None)]
        shown = lake.sql("SHOW STREAMS").fetchall() + lake.sql("EXPLAIN STREAM told").fetchall()
    assert set(catcher.paths) == {"/in?key=ge%2Fheim%20%26%20so&of=ge%2Fheim%20%26%20so"}
    assert "heim" not in str(shown)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if b"heim" in file.read_bytes()]
    assert [file for file in files if b"{{secrets.plant}}" in file.read_bytes()]


def test_events_wait_for_a_secret_that_is_not_set(tmp_path: Path, catcher: Catcher) -> None:
    root, url = tmp_path / "lake", f"{catcher.url}/{{{{secrets.plant}}}}"
    with opened(root, {"other": "x"}) as lake:
        ((sent, message),) = run(lake, url)
        assert (sent, message) == (0, "the setting `secrets` of this process has no plant")
    with opened(root, {"plant": "known"}) as lake:
        lake.run()
    assert len(catcher.events(2)) == 2
    assert set(catcher.paths) == {"/known"}


@pytest.mark.parametrize(
    "url",
    [
        "ws://{{secrets.host}}:1/in",
        "ws://localhost:{{secrets.port}}/in",
        "ws://localhost:1/{{secret.a}}",
        "ws://localhost:1/{{secrets.a b}}",
        "ws://localhost:1/{{secrets.}}",
    ],
)
def test_a_secret_stands_behind_the_host_by_its_name(tmp_path: Path, url: str) -> None:
    with opened(tmp_path / "lake", {}) as lake:
        lake.sql("CREATE TABLE loads (ts TIMESTAMP, watts DOUBLE)")
        with pytest.raises(StatementError) as refused:
            lake.sql(STREAM.format(url=url))
    assert refused.value.code == "NOTIFY_URL"


@pytest.mark.parametrize("given", [{"a b": SECRET}, {"a": 1}, '{"a": ', [SECRET], {"a": [SECRET]}])
def test_secrets_that_are_no_names_and_texts_are_refused_unseen(given: object) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings(secrets=given)
    assert refused.value.code == "SETTING_INVALID"
    assert "heim" not in refused.value.render()
