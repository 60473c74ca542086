"""The daemon in processes of its own: served over HTTP, killed, taken over, stopped."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect

from lakestream.clock import SystemClock
from lakestream.lake import Lake
from tests.certificates import certificate
from tests.faults.attach import jvm_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow]

CHECKOUT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "lakestream"]
TOKEN = "a-secret-of-the-test"

TABLES = """
CREATE TABLE power (ts TIMESTAMP, watts DOUBLE);
CREATE STREAM hourly INTERVAL(1h) SLIDING(1h) FROM power
  INTO power_hourly AS SELECT _twstart AS hour, count(*) AS n, avg(watts) AS mean FROM %%trows
"""


class Serving:
    """A daemon on the lake, and what it says."""

    def __init__(self, root: str, log: Path, **settings: str) -> None:
        self.root = root
        self.log = log
        self.settings = settings
        self.process = subprocess.Popen(
            [*COMMAND, "--lake", root, "serve"], stderr=log.open("wb"), env=environment(**settings)
        )

    def url(self) -> str:
        """Return where it listens, once it does."""
        self.until(lambda: " at http" in self.log.read_text())
        return self.log.read_text().partition(" at ")[2].partition(";")[0]

    def until(self, holds: Any) -> None:
        clock = SystemClock()
        deadline = clock.monotonic() + 120
        while not holds():
            assert self.process.poll() is None, self.log.read_text()
            assert clock.monotonic() < deadline, self.log.read_text()
            clock.sleep(0.05)

    def has_jvm(self) -> bool:
        with suppress(IndexError, subprocess.CalledProcessError):
            return bool(self.jvm())
        return False

    def jvm(self) -> int:
        return jvm_of(self.process.pid)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


def environment(**settings: str) -> dict[str, str]:
    small = {"MASTER": "local[1]", "DRIVER_MEMORY": "1g", "SERVER_PORT": "0", "CONNECT_PORT": "0", **settings}
    named = {f"LAKESTREAM_{name}": value for name, value in small.items()}
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), **named}


def lakestream(root: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--lake", root, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env=environment(**settings),
    )


def get(url: str) -> Any:
    with urlopen(url) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = str(tmp_path_factory.mktemp("serve") / "lake")
    assert lakestream(made, "init").returncode == 0
    return made


@pytest.fixture
def serve(root: str, tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Start daemons on the lake; what is left of them at the end is killed."""
    started: list[Serving] = []

    def start(**settings: str) -> Serving:
        started.append(Serving(root, tmp_path / f"{len(started)}.log", **settings))
        return started[-1]

    yield start
    for serving in started:
        serving.process.kill()
        serving.process.wait()


def test_a_daemon_serves_a_lake_and_another_one_takes_over(
    root: str, serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = serve()
    url = first.url()
    made = lakestream(root, "sql", TABLES)
    assert made.returncode == 0, made.stderr
    with connect(url.replace("http", "ws") + "/api/live?stream=main.hourly") as live:
        values = "('2025-01-01 08:10:00', 700), ('2025-01-01 08:50:00', 740), ('2025-01-01 09:00:00', 0)"
        inserted = lakestream(root, "--output", "json", "sql", f"INSERT INTO power VALUES {values}")
        assert json.loads(inserted.stdout)["message"] == "inserted 3 rows", inserted.stderr
        tick = json.loads(live.recv(timeout=60))
    assert (tick["type"], tick["stream"], tick["rows_in"], tick["rows_out"]) == ("tick", "main.hourly", 3, 1)
    output = get(f"{url}/api/streams/main/hourly/output")
    assert output["rows"] == [["2025-01-01T08:00:00+00:00", 2, 720.0]]
    second = taken_over(serve, first)
    assert get(f"{second.url()}/api/streams/main/hourly")["rows_out"] == 1
    shown = lakestream(root, "sql", "SELECT hour, n, mean FROM power_hourly")
    assert shown.stdout.splitlines()[-1].split() == ["2025-01-01", "08:00:00+00:00", "2", "720.0"]
    wrong = lakestream(root, "sql", "SELECT nothing\n FROM nowhere")
    assert (wrong.returncode, "line 2, column 7" in wrong.stderr) == (2, True)
    through_the_daemon(root, monkeypatch)
    assert second.end(signal.SIGTERM) == 0
    assert "leaked" not in second.log.read_text()


def through_the_daemon(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the daemon work for commands that could not start a Spark of their own."""
    monkeypatch.setenv("JAVA_HOME", root)
    assert "error[JAVA" in lakestream(root, "--no-daemon", "verify", "hourly").stderr
    assert "INTERVAL(1h)" in lakestream(root, "explain", "hourly").stdout
    assert lakestream(root, "verify").stdout == "main.hourly:\n1 of 1 rows equal\n"
    done = lakestream(root, "recalculate", "hourly", "--from", "2025-01-01", "--to", "2025-01-02")
    assert done.stdout == "recalculated: 1 row in 1 part\n", done.stderr
    again = lakestream(root, "--output", "json", "recalculate", "main.hourly", "--resync")
    assert json.loads(again.stdout) == {"status": "Done", "part": 1, "parts": 1, "rows": 1}, again.stderr
    assert lakestream(root, "stop", "hourly").returncode == 0
    stopped = lakestream(root, "recalculate", "hourly", "--from", "2025-01-01")
    assert (stopped.returncode, stopped.stdout) == (1, "not done: the stream is stopped\n"), stopped.stderr
    unknown = lakestream(root, "verify", "hourly", "--from", "yesterday")
    assert (unknown.returncode, "error[BAD_VALUE]" in unknown.stderr) == (2, True), unknown.stderr


def taken_over(serve: Callable[..., Serving], first: Serving) -> Serving:
    """Kill a daemon while another one waits, and return that one once it serves the lake."""
    second = serve()
    second.until(lambda: "waiting to take over" in second.log.read_text())
    assert f"process {first.process.pid} " in second.log.read_text()
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second.url()
    return second


def test_a_daemon_whose_spark_dies_says_so_and_starts_another_one(
    root: str, serve: Callable[..., Serving], tmp_path: Path
) -> None:
    with Lake(root) as lake:
        lake.sql("CREATE TABLE named (ts TIMESTAMP, watts DOUBLE)")
    port = free_port()
    serving = serve(SERVER_TOKEN=TOKEN, CONNECT_PORT=str(port))
    serving.url()
    refused = lakestream(root, "sql", "SHOW DATABASES")
    assert (refused.returncode, "TOKEN_NEEDED" in refused.stderr) == (78, True)
    assert "LAKESTREAM_SERVER_TOKEN" in refused.stderr
    shown = lakestream(root, "sql", "SHOW DATABASES", SERVER_TOKEN=TOKEN)
    assert (shown.returncode, "main" in shown.stdout) == (0, True), shown.stderr
    assert attached(port, tmp_path / "beside") == 3
    os.kill(serving.jvm(), signal.SIGKILL)
    serving.until(lambda: "SPARK_DIED" in serving.log.read_text())
    assert attached(port, tmp_path / "again") == 3
    assert serving.process.poll() is None


def test_a_daemon_with_a_certificate_answers_https_alone(
    root: str, serve: Callable[..., Serving], tmp_path: Path
) -> None:
    cert, key = certificate(tmp_path)
    serving = serve(SERVER_TLS_CERT=str(cert), SERVER_TLS_KEY=str(key))
    url = serving.url()
    assert url.startswith("https://127.0.0.1:")
    asked = lakestream(root, "sql", "SHOW DATABASES", SERVER_TLS_CERT=str(cert))
    assert (asked.returncode, "main" in asked.stdout) == (0, True), asked.stderr
    for trusted in ({}, {"SERVER_TLS_CERT": str(certificate(tmp_path, name="other")[0])}):
        refused = lakestream(root, "sql", "SHOW DATABASES", **trusted)
        assert (refused.returncode, "DAEMON_UNREACHABLE" in refused.stderr) == (75, True), refused.stderr
    with pytest.raises(OSError, match=r"closed|reset|refused|timed out"):
        get(url.replace("https", "http"))


ENDLESS = """
SELECT sum(a.watts * b.watts * c.watts) AS x FROM many a JOIN many b ON a.watts <> b.watts
JOIN many c ON c.watts <> b.watts
"""


HUGE = "SELECT repeat('a', 2000000000)"
"""A value for which Spark, with its gigabyte, has no memory."""


@pytest.mark.long
def test_who_has_spark_die_again_and_again_ends_neither_streams_nor_the_daemon(
    root: str, serve: Callable[..., Serving]
) -> None:
    serving = serve(SMALL_PATH="spark")
    url = serving.url()
    made = lakestream(root, "sql", TABLES.replace("power", "drawn").replace("hourly", "drawn_means"))
    assert made.returncode == 0, made.stderr
    for hour in range(6):
        with connect(url.replace("http", "ws") + "/api/live?stream=main.drawn_means") as live:
            while "SPARK_DIED" not in (said := lakestream(root, "sql", HUGE).stderr):
                assert "SPARK_REFUSED" in said
            with Lake(root) as lake:
                lake.insert("drawn", [{"ts": f"2025-01-01 1{hour}:00:00", "watts": 1}])
            while json.loads(live.recv(timeout=120)).get("rows_in") != 1:
                pass
    serving.until(lambda: get(f"{url}/healthz") == {"status": "ok"})


@pytest.mark.long
def test_a_spark_that_dies_under_a_statement_ends_that_one_alone(
    root: str, serve: Callable[..., Serving]
) -> None:
    """Ticks and statements are computed by Spark: both have another one afterwards."""
    serving = serve(SMALL_PATH="spark")
    url = serving.url()
    made = lakestream(root, "sql", TABLES.replace("power", "loads").replace("hourly", "means"))
    assert made.returncode == 0, made.stderr
    with Lake(root) as lake:
        lake.sql("CREATE TABLE lots (ts TIMESTAMP, watts DOUBLE)")
        lake.insert("lots", [{"ts": n, "watts": n} for n in range(20_000)])
        lake.insert("loads", [{"ts": "2025-01-01 08:10:00", "watts": 1}, {"ts": "2025-01-01 09:00:00"}])
    with connect(url.replace("http", "ws") + "/api/live?stream=main.means") as live:
        for number in range(2):
            client = subprocess.Popen(
                [*COMMAND, "--lake", root, "sql", ENDLESS.replace("many", "lots")],
                env=environment(),
                stderr=subprocess.PIPE,
                text=True,
            )
            serving.until(serving.has_jvm)
            SystemClock().sleep(8)  # by then the statement computes
            os.kill(serving.jvm(), signal.SIGKILL)
            _, said = client.communicate(timeout=60)
            assert (client.returncode, "SPARK_DIED" in said) == (70, True), said
            with Lake(root) as lake:
                lake.insert("loads", [{"ts": f"2025-01-01 1{number}:00:00", "watts": 1}])
            while json.loads(live.recv(timeout=120)).get("rows_out") != 1:
                pass
    # Whose statements it has died of more than once waits for the next one.
    while (answer := lakestream(root, "sql", "SELECT count(*) AS n FROM loads")).returncode:
        assert "SPARK_REFUSED" in answer.stderr, answer.stderr
        SystemClock().sleep(1)
    assert answer.stdout.split()[-1] == "4"
    assert "lakestream_spark_deaths_total 2.0" in urlopen(f"{url}/metrics").read().decode()
    assert serving.process.poll() is None


def test_a_statement_without_end_keeps_no_stream_from_ticking(
    root: str, serve: Callable[..., Serving]
) -> None:
    """Everything is asked of a Spark of one slot, which the statement has."""
    serving = serve(SMALL_PATH="spark")
    url = serving.url()
    assert lakestream(root, "sql", TABLES.replace("power", "load").replace("hourly", "mean")).returncode == 0
    with Lake(root) as lake:
        lake.sql("CREATE TABLE many (ts TIMESTAMP, watts DOUBLE)")
        lake.insert("many", [{"ts": n, "watts": n} for n in range(20_000)])
    client = subprocess.Popen([*COMMAND, "--lake", root, "sql", ENDLESS], env=environment())
    with connect(url.replace("http", "ws") + "/api/live?stream=main.mean") as live:
        SystemClock().sleep(8)  # by then the statement computes
        with Lake(root) as lake:
            lake.insert("load", [{"ts": "2025-01-01 08:10:00", "watts": 1}, {"ts": "2025-01-01 09:00:00"}])
        assert json.loads(live.recv(timeout=60))["rows_out"] == 1
        assert client.poll() is None
    asked = SystemClock().monotonic()
    assert lakestream(root, "sql", "SELECT count(*) AS n FROM load").stdout.split()[-1] == "2"
    assert client.poll() is None
    client.send_signal(signal.SIGINT)
    client.wait(20)
    assert SystemClock().monotonic() - asked < 60


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


CLIENT = """
import sys, time
from pyspark.sql import SparkSession
from lakestream import Lake

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
until = time.monotonic() + 60
while not spark.catalog.tableExists('main.named') and time.monotonic() < until:
    time.sleep(1)
assert spark.sql('SELECT * FROM main.named').columns[0] == 'ts'
lake = Lake(sys.argv[2], spark=spark)
lake.sql('CREATE TABLE small (ts TIMESTAMP, n INT)')
assert lake.insert('small', spark.createDataFrame([(0, 1), (1, 2)], 'ts LONG, n INT')) == 1
print(lake.sql('SELECT sum(n) FROM small').fetchall()[0][0])
"""


def attached(port: int, lake: Path) -> int:
    """Return what a lake beside the daemon's counts, on a session of Spark Connect."""
    address = f"sc://localhost:{port}/;token={TOKEN}"
    ran = subprocess.run(
        [sys.executable, "-c", CLIENT, address, lake],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_a_full_disk_is_said_to_who_asks_and_passes(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    assert lakestream(root, "init").returncode == 0
    serving = Serving(root, tmp_path / "log")
    try:
        url = serving.url()
        assert lakestream(root, "sql", TABLES).returncode == 0
        _, most = resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        for statement in ("INSERT INTO power VALUES ('2025-01-01 08:10:00', 700)", "CREATE DATABASE d"):
            refused = lakestream(root, "sql", statement)
            assert (refused.returncode, "IO_ERROR" in refused.stderr) == (74, True), refused.stderr
            assert "hint: allow the process larger files" in refused.stderr
        assert lakestream(root, "sql", "SELECT count(*) FROM power").returncode == 0
        resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE, (most, most))
        for hour in ("08", "09"):
            inserted = lakestream(root, "sql", f"INSERT INTO power VALUES ('2025-01-01 {hour}:10:00', 700)")
            assert inserted.returncode == 0, inserted.stderr
        serving.until(lambda: get(f"{url}/api/streams/main/hourly")["rows_out"] == 1)
        assert serving.end(signal.SIGTERM) == 0
    finally:
        serving.process.kill()
        serving.process.wait()
    checked = lakestream(root, "check")
    assert (checked.returncode, checked.stdout) == (0, "nothing is wrong\n")


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "status"),
    [
        (("--port", "65536"), {}, "SETTING_INVALID", 78),
        (("--host", "0.0.0.0"), {}, "TOKEN_NEEDED", 78),
        ((), {"SERVER_TOKEN": "short"}, "SETTING_INVALID", 78),
        (("--host", "nowhere.invalid"), {"SERVER_TOKEN": TOKEN}, "ADDRESS_UNUSABLE", 78),
    ],
)
def test_what_a_daemon_cannot_do_is_refused_before_spark_starts(
    root: str, arguments: tuple[str, ...], settings: dict[str, str], code: str, status: int
) -> None:
    ran = lakestream(root, "serve", *arguments, **settings)
    assert (ran.returncode, f"error[{code}]" in ran.stderr) == (status, True), ran.stderr
    assert "short" not in ran.stderr.replace("shorter", "")


def test_a_port_that_is_in_use_is_refused(root: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = lakestream(root, "serve", "--port", str(taken.getsockname()[1]))
    assert (ran.returncode, "error[PORT_IN_USE]" in ran.stderr) == (75, True), ran.stderr
