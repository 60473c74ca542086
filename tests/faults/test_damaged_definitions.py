"""Any table of the lake's own, damaged in its log: its neighbours go on, and it leads back; no Spark."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream.clock import SystemClock
from lakestream.errors import LakestreamError, StorageError
from lakestream.lake import Lake
from lakestream.notify import dispatcher
from lakestream.settings import Settings
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.audit import Audit
from lakestream.storage.records.tokens import Scope, Tokens
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.faults

MADE = """
CREATE TABLE a (ts TIMESTAMP, v INT);
CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (site VARCHAR(8));
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a NOTIFY('{url}') ON (WINDOW_CLOSE) INTO o AS
  SELECT _twstart AS w, sum(v) AS t FROM %%trows;
CREATE TABLE b (ts TIMESTAMP, v INT);
CREATE STREAM fails INTERVAL(1m) SLIDING(1m) FROM b EXPECT few CHECK (v < 1) ON VIOLATION FAIL INTO ob AS
  SELECT _twstart AS w, sum(v) AS t FROM %%trows;
CREATE STREAM other INTERVAL(1m) SLIDING(1m) FROM a INTO oo AS SELECT _twstart AS w, sum(v) AS t FROM %%trows;
"""
SETTINGS = Settings(notify_hosts=("localhost",))
TIMES = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC"))})
FEED = {"delta.enableChangeDataFeed": "true"}
TABLES = (
    "databases",
    "deliveries",
    "failures",
    "recalculations",
    "streams",
    "subtables",
    "tables",
    "timeseries",
    "tokens",
    "tree",
)
"""All but the outbox and the records of ticks, which have tests of their own."""
STATES = {"s": "Running", "other": "Running", "fails": "Failed"}
OF_TICKS = {"databases", "recalculations", "streams", "tables"}
"""Those without which no stream can tick."""


class Story:
    """A lake that has rows in each of its own tables, changed several times; a target has its events."""

    def __init__(self, root: Path, catcher: Catcher) -> None:
        self.root, self.catcher, self.minute = root, catcher, 0
        self.lake = self.opened()

    def begin(self) -> Story:
        self.lake.sql(MADE.format(url=self.catcher.url))
        for number in range(4):
            self.change(number)
            self.come()
        self.lake.close()
        return self

    def copied(self, root: Path) -> Story:
        """Return the same lake elsewhere."""
        shutil.copytree(self.root, root)
        copy = Story(root, self.catcher)
        copy.minute = self.minute
        return copy

    def opened(self) -> Lake:
        return Lake(self.root, settings=SETTINGS)

    def reopen(self) -> None:
        self.lake.close()
        self.lake = self.opened()

    def change(self, number: int) -> None:
        """Make one more of everything that is not made with a tick."""
        self.lake.sql(f"CREATE DATABASE d{number}; CREATE TABLE m{number} USING meters TAGS ('s{number}')")
        outside = f"{self.root}-{number}"
        write_deltalake(outside, TIMES, configuration=FEED)
        self.lake.sql(f"CREATE TABLE out{number} LOCATION '{outside}'")
        self.lake.sql(f"CREATE DATABASE root.sg{number}", dialect="iotdb")
        self.lake.sql(f"CREATE TIMESERIES root.sg{number}.d.v INT32", dialect="iotdb")
        Tokens(Layout(str(self.root))).issue(f"t{number}", Scope.READ, [], 0)
        self.lake.sql(
            f"INSERT INTO b VALUES ('2026-01-01 00:0{number}:00', {number + 1}); START STREAM fails"
        )
        self.lake.sql("RECALCULATE STREAM other FROM '2026-01-01' TO '2026-01-01 00:00:30'")

    def come(self) -> None:
        self.lake.insert("a", [{"ts": f"2026-01-01 00:{self.minute:02}:00", "v": self.minute}])
        self.minute += 1
        self.lake.run()

    def states(self) -> dict[str, str]:
        return {one.name: one.status for one in self.lake.streams()}

    def told(self) -> dict[str, object]:
        """Return what statements say of everything that was made."""
        asked = {
            "databases": "SHOW DATABASES",
            "subtables": "SHOW TABLES",
        }
        told: dict[str, object] = {
            name: sorted(map(str, self.lake.sql(text).fetchall())) for name, text in asked.items()
        }
        series = self.lake.sql("SHOW TIMESERIES", dialect="iotdb").fetchall()
        tokens = [token.name for token in Tokens(Layout(str(self.root))).every()]
        return {**told, "series": sorted(map(str, series)), "tokens": tokens}

    def results(self) -> list[int]:
        """Return the results that came, each message once, in order."""
        messages = {one["messageId"]: one for one in self.catcher.messages}
        return [
            event["result"]["t"]
            for message in messages.values()
            for stream in message["streams"]
            for event in stream["events"]
        ]

    def totals(self, table: str) -> list[int]:
        rows = self.lake.sql(f"SELECT t FROM {table} WHERE t IS NOT NULL ORDER BY w").fetchall()
        return [row[0] for row in rows]

    def is_whole(self) -> None:
        """See that all streams are as they are to be, with all rows, and nothing is found damaged."""
        assert self.states() == STATES
        assert self.totals("o") == self.totals("oo") == [*range(self.minute - 1)]
        assert self.repair() == []

    def repair(self) -> list[str]:
        """Repair what is found until there is nothing more; return where it was."""
        places: list[str] = []
        while found := [one for one in self.lake.repair.check() if one.where != "main.fails"]:
            assert len(places) < 10, found
            for finding in found:
                assert finding.remedy, finding
                self.lake.repair.repair(finding)
                places.append(finding.where)
        return places


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    told = Story(tmp_path_factory.mktemp("made") / "lake", Catcher()).begin()
    yield told
    told.catcher.close()


@pytest.fixture
def story(made: Story, tmp_path: Path) -> Iterator[Story]:
    sent = [*made.catcher.messages]
    told = made.copied(tmp_path / "lake")
    yield told
    told.lake.close()
    made.catcher.messages[:] = sent


def entries(table: Path) -> list[Path]:
    return sorted(table.glob("_delta_log/*.json"))


def unlink(*files: Path) -> None:
    for file in files:
        file.unlink()


def half(*files: Path) -> None:
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "folder gone": shutil.rmtree,
    "log gone": lambda table: shutil.rmtree(table / "_delta_log"),
    "newest entry gone": lambda table: entries(table)[-1].unlink(),
    "newest entry torn": lambda table: half(entries(table)[-1]),
    "first entry torn": lambda table: half(entries(table)[0]),
    "an entry empty": lambda table: entries(table)[-2].write_bytes(b""),
    "an entry gone": lambda table: unlink(entries(table)[-2], *table.glob("_delta_log/*checkpoint*")),
    "all rows torn": lambda table: half(*table.glob("*.parquet")),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_table_of_ours_leads_back_without_loss(story: Story, table: str, damage: str) -> None:
    said = story.told()
    story.lake.close()
    DAMAGES[damage](story.root / "_lakestream" / table)
    story.reopen()
    if table not in OF_TICKS:
        story.come()
        assert story.states() == STATES
        assert story.totals("oo") == [*range(story.minute - 1)]
    assert f"_lakestream/{table}" in story.repair()
    story.reopen()
    story.come()
    story.is_whole()
    assert story.results() == [*range(story.minute - 1)]
    assert story.told() == said
    with pytest.raises(LakestreamError, match="TABLE_EXISTS"):
        story.lake.sql("CREATE TABLE m1 USING meters TAGS ('s1')")


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_process_at_work_goes_on_after_the_repair_of_another(
    story: Story, table: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "RETRY_SECONDS", 0.1)
    said = story.told()
    story.come()
    DAMAGES[damage](story.root / "_lakestream" / table)
    said_of_it = ""
    try:
        story.come()
    except StorageError as error:
        said_of_it = error.code
    assert said_of_it in ("", "REGISTRY_DAMAGED", "REGISTRY_REWOUND")
    at_work, story.lake = story.lake, story.opened()
    story.repair()
    story.lake.close()
    story.lake = at_work
    story.come()
    story.come()
    story.is_whole()
    assert story.results() == [*range(story.minute - 1)]
    assert story.told() == said


@pytest.mark.parametrize("table", ["plans", "progress"])
@pytest.mark.parametrize("damage", ["folder gone", "log gone"])
def test_a_process_at_work_goes_on_without_the_records_of_ticks(
    story: Story, table: str, damage: str
) -> None:
    """As one that begins then does: what they had is told by the outputs, or the stream is computed anew."""
    story.come()
    DAMAGES[damage](story.root / "_lakestream" / table)
    story.come()
    assert set(story.repair()) == ({"main.s", "main.other"} if table == "progress" else set())
    story.come()
    story.come()
    story.is_whole()


def test_a_lake_that_is_gone_under_a_process_at_work_is_waited_for(story: Story) -> None:
    """As where its disk is not mounted: nothing is made in its place, and nothing is empty."""
    story.come()
    away = story.root.rename(story.root.with_name("away"))
    for asked in (
        lambda: story.lake.sql("SHOW STREAMS"),
        lambda: story.lake.sql("SELECT * FROM a"),
        lambda: story.lake.sql("CREATE DATABASE d"),
        lambda: story.lake.insert("a", [{"ts": "2026-01-01", "v": 1}]),
        story.lake.run,
        story.lake.streams,
    ):
        with pytest.raises(StorageError, match="LAKE_GONE"):
            asked()
        assert not story.root.exists()
    Audit(Layout(str(story.root)), SystemClock()).note("ann", "::1", "what is only in the log", "ok")
    assert not story.root.exists()
    away.rename(story.root)
    story.come()
    story.is_whole()


@pytest.mark.parametrize("content", [None, b"", bytes(32), b"[1]", b'{"format": 1, "timez'])
def test_a_lake_is_not_made_anew_where_nothing_says_what_it_is(tmp_path: Path, content: bytes | None) -> None:
    """It would have another time zone, and its days other windows."""
    root = tmp_path / "lake"
    with Lake(root, settings=Settings(timezone="Asia/Shanghai")) as lake:
        lake.sql("CREATE TABLE a (ts TIMESTAMP, v INT)")
    marker = root / "_lakestream" / "lake.json"
    marker.unlink() if content is None else marker.write_bytes(content)
    for create in (True, False):
        with pytest.raises(StorageError, match=r"REGISTRY_DAMAGED: .*lake\.json") as caught:
            Lake(root, create=create)
    command = shlex.split(caught.value.hint.removeprefix("put it back: "))
    shutil.copyfile(*command[1:])
    with Lake(root) as lake:
        assert lake.timezone == "Asia/Shanghai"
        assert lake.sql("SELECT count(*) FROM a").fetchall() == [(0,)]
