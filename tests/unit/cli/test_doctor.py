"""What the doctor finds on machines and lakes that are well, and on those that are not."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream.cli.lakes import doctor
from lakestream.clock import SystemClock
from lakestream.errors import PrerequisiteError
from lakestream.settings import Settings
from lakestream.storage.names.catalog import Catalog
from lakestream.storage.names.table_info import Column
from lakestream.storage.places.layout import Layout
from tests.unit.cli.conftest import status as stream_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result as Outcome

    from lakestream.statements.status import StreamStatus
    from tests.unit.cli.conftest import FakeLake

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    layout = Layout(str(tmp_path / "lake"))
    layout.initialise()
    made = Catalog(layout, SystemClock())
    made.databases.create("main")
    columns = [Column("ts", "timestamp"), Column("n", "int")]
    made.create_table("main", "t", columns, time_column="ts", key=("ts",))
    return made


def verdicts(catalog: Catalog, *, keys: bool = True) -> dict[str, tuple[str, str]]:
    checks = list(doctor.check_lake(catalog.layout, keys=keys))
    return {check.name: (check.verdict, check.found) for check in checks}


def test_a_lake_that_is_well(catalog: Catalog) -> None:
    found = verdicts(catalog)
    assert {verdict for verdict, _ in found.values()} == {"ok"}
    assert found["table main.t"] == ("ok", "version 0, change feed on")


def test_keys_repeated_by_a_foreign_append_are_a_warning(catalog: Catalog) -> None:
    rows = pa.table(
        {"ts": pa.array([NOON, NOON], pa.timestamp("us", "UTC")), "n": pa.array([1, 2], pa.int32())}
    )
    write_deltalake(catalog.table("main", "t").path, rows, mode="append")
    assert verdicts(catalog)["table main.t"] == ("warning", "1 key (ts) in more than one row")
    assert verdicts(catalog, keys=False)["table main.t"][0] == "ok"


def test_a_change_feed_that_is_off_is_wrong(catalog: Catalog, tmp_path: Path) -> None:
    rows = pa.table({"ts": pa.array([NOON], pa.timestamp("us", "UTC"))})
    write_deltalake(str(tmp_path / "lake" / "main" / "foreign"), rows)
    verdict, found = verdicts(catalog)["table main.foreign"]
    assert verdict == "wrong"
    assert "change feed is off" in found


def test_a_broken_table_does_not_hide_the_others(catalog: Catalog) -> None:
    path = Path(catalog.table("main", "t").path)
    (path / "_delta_log" / "00000000000000000000.json").write_text("{ torn")
    (path.parent / "empty").mkdir()
    found = verdicts(catalog)
    assert found["table main.t"][0] == "wrong"
    assert found["table main.empty"][0] == "wrong"
    assert found["lake"][0] == "ok"


def test_a_newer_layout_is_wrong(catalog: Catalog) -> None:
    (Path(catalog.layout.root) / "_lakestream" / "lake.json").write_text('{"format": 99}')
    found = verdicts(catalog)
    assert found["lake"][0] == "wrong"
    assert len(found) == 1


def test_little_disk_is_wrong(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage("/"))(10, 9, 1)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: usage)
    assert verdicts(catalog)["disk"] == ("wrong", "0.0 GiB free")


@pytest.mark.parametrize(
    ("stream", "verdict", "found"),
    [
        (stream_status(), "ok", "up to date"),
        (stream_status(lag=1), "warning", "1 commit behind"),
        (stream_status(held_back="TABLE_UNREADABLE"), "warning", "held back by TABLE_UNREADABLE"),
        (
            stream_status(waiting_groups=("g = 1: 7 windows",), lag=1),
            "warning",
            "too many windows, so these groups wait: g = 1: 7 windows",
        ),
        (stream_status(status="Stopped", lag=5), "ok", "stopped"),
        (stream_status(status="Failed", last_error="CHANGES_LOST"), "wrong", "failed: CHANGES_LOST"),
    ],
)
def test_streams(stream: StreamStatus, verdict: str, found: str) -> None:
    (check,) = doctor.check_streams([stream])
    assert (check.name, check.verdict, check.found) == ("stream main.daily", verdict, found)


def machine(settings: Callable[[], Settings] = Settings) -> dict[str, tuple[str, str]]:
    return {check.name: (check.verdict, check.found) for check in doctor.check_machine(settings)}


def test_java_that_is_missing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise PrerequisiteError("JAVA_MISSING", "Java was not found", hint="install Java 17")

    monkeypatch.setattr("lakestream.java.check_java", missing)
    assert machine()["java"] == ("wrong", "JAVA_MISSING: Java was not found")


def test_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine(lambda: Settings(jars=tmp_path))["jars"][0] == "wrong"
    monkeypatch.setattr("lakestream.storage.sessions.jars.jars_in", lambda _folder: [])
    assert machine()["jars"] == ("warning", "not fetched yet")


def test_a_package_that_is_missing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    assert machine()["no-such-package"] == ("wrong", "not installed")


def test_settings_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAM_TIMEZONE", "Mars/Olympus")
    found = machine()
    assert found["settings"][0] == "wrong"
    assert "jars" not in found


def test_the_command(call: Callable[..., Outcome], lake: FakeLake, catalog: Catalog) -> None:
    lake.statuses = [stream_status(status="Failed", last_error="\x1b[31mbad")]
    outcome = call("--lake", catalog.layout.root, "doctor")
    assert outcome.exit_code == 1
    assert "ok       table main.t: version 0, change feed on\n" in outcome.stdout
    assert "wrong    stream main.daily: failed: \\x1b[31mbad\n" in outcome.stdout

    outcome = call("--lake", catalog.layout.root, "doctor", "--output", "json", "--skip-keys")
    said = json.loads(outcome.stdout)
    assert outcome.exit_code == 1
    assert said["healthy"] is False
    assert {"name": "lake", "verdict": "ok"}.items() <= next(
        c for c in said["checks"] if c["name"] == "lake"
    ).items()


def test_without_a_lake_the_machine_is_checked(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_java", lambda: doctor.Check("java", "ok", "17"))
    outcome = call("doctor", env={"LAKESTREAM_LAKE": ""})
    assert outcome.exit_code == 0
    assert "warning  lake: LAKE_NOT_GIVEN" in outcome.stdout
    outcome = call("--lake", "/nowhere/lake", "doctor")
    assert outcome.exit_code == 1
    assert "wrong    lake: " in outcome.stdout


class _Page(BaseHTTPRequestHandler):
    """The page of a master, as JSON; the master's port is the page's own."""

    def do_GET(self) -> None:
        port, free = self.server.server_port, 1024  # type: ignore[attr-defined]
        worker = {"cores": 4, "coresfree": 1, "memory": 2048, "memoryfree": free}
        workers = [{**worker, "state": "ALIVE"}, {**worker, "state": "DEAD"}]
        said = {"url": f"spark://name:{port}", "status": "ALIVE", "workers": workers}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, *_args: object) -> None: ...


@pytest.fixture
def master() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize(
    ("conf", "verdict", "said"),
    [
        ({"spark.executor.memory": "1g"}, "ok", "1 of 4 cores and 1,024 of 2,048 MiB free"),
        ({"spark.executor.memory": "1025m"}, "wrong", "each executor needs 1,025 MiB and 1 core"),
        ({"spark.executor.cores": "2"}, "wrong", "each executor needs 1,024 MiB and 2 cores"),
        ({"spark.master.ui.port": "1"}, "warning", "no page of the master tells"),
        ({"spark.executor.memory": "much"}, "wrong", "SETTING_INVALID"),
    ],
)
def test_the_room_of_a_cluster(conf: dict[str, str], verdict: str, said: str, master: int) -> None:
    settings = Settings(
        master=f"spark://127.0.0.1:{master}", spark_conf={"spark.master.ui.port": str(master), **conf}
    )
    found = machine(lambda: settings)["cluster"]
    assert (found[0], said in found[1]) == (verdict, True)


def test_a_master_that_does_not_answer_is_wrong() -> None:
    with socket.socket() as closed:  # bound, and never listens
        closed.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{closed.getsockname()[1]}"
        assert machine(lambda: Settings(master=master))["cluster"][1].startswith("SPARK_UNREACHABLE")


def test_of_other_clusters_nothing_is_said() -> None:
    assert machine(lambda: Settings(master="yarn"))["cluster"][0] == "ok"
    assert "cluster" not in machine()


def test_a_server_of_spark_connect(master: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{master}/;token=secret")
    assert machine()["server"] == ("ok", f"sc://127.0.0.1:{master}/ answers")
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    assert machine()["server"][1].startswith("SETTING_INVALID")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{closed.getsockname()[1]}")
        assert machine()["server"][1].startswith("SPARK_UNREACHABLE")
