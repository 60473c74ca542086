"""What is deployed with the daemon: dashboard and alerts ask for metrics that there are."""

from __future__ import annotations

import configparser
import json
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from lakestream.server.news.metrics import Metrics
from lakestream.server.process.supervisor import tell_supervisor
from tests.unit.cli.conftest import report, status

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = Path(__file__).parents[3] / "conf" / "deploy"
UNITS = ("_total", "_seconds", "_bucket", "_sum", "_count", "_info")
WITHOUT_UNIT = {
    "lakestream_streams",
    "lakestream_stream_status",
    "lakestream_lag_commits",
    "lakestream_waiting_groups",
    "lakestream_events_waiting",
}
"""Gauges that count things."""


def loaded(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def names() -> dict[str, set[str]]:
    """The metrics of a daemon by name, each with its labels."""
    metrics = Metrics(lambda: [status(last_tick_us=1)], lambda: {"wss://x": 3}, lambda: 2)
    metrics.count(report())
    families = text_string_to_metric_families(metrics.text().decode())
    samples = [sample for family in families for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples if not sample.name.endswith("_created")}


def expressions() -> Iterator[str]:
    for panel in json.loads((DEPLOY / "grafana" / "dashboard.json").read_text(encoding="utf-8"))["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for rule in loaded("alerts.yml")["groups"][0]["rules"]:
        yield rule["expr"]


def test_metrics_are_named_by_the_conventions_of_prometheus(names: dict[str, set[str]]) -> None:
    assert all(name.endswith(UNITS) or name in WITHOUT_UNIT for name in names)
    assert names["lakestream_tick_duration_seconds_bucket"] == {"stream", "le"}
    assert names["lakestream_last_tick_timestamp_seconds"] == {"stream"}


@pytest.mark.parametrize("expression", [*expressions()])
def test_what_is_shown_and_told_of_is_measured(names: dict[str, set[str]], expression: str) -> None:
    asked = re.findall(r"(lakestream_\w+)(?:\{([^}]*)\})?", expression)
    assert asked or expression.startswith("up{")
    for name, labels in asked:
        assert name in names
        assert {label.partition("=")[0].strip("!~") for label in labels.split(",") if label} <= names[name]


def test_alerts_say_what_to_do() -> None:
    for rule in loaded("alerts.yml")["groups"][0]["rules"]:
        assert {"summary", "description"} == set(rule["annotations"])
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_a_container_has_a_user_and_says_whether_it_is_well() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    order = [line.split()[0] for line in lines if line and line[0].isupper()]
    assert order.index("USER") < order.index("HEALTHCHECK") < order.index("CMD")
    service = loaded("compose.yml")["services"]["lakestream"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    for one in loaded("compose.yml")["services"].values():
        for volume in one["volumes"]:
            place = volume.partition(":")[0]
            assert not place.startswith(".") or (DEPLOY / place).is_file()


def test_the_unit_runs_as_a_user_who_may_do_little() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "lakestream.service", encoding="utf-8")
    service = unit["Service"]
    assert (service["Type"], service["User"], service["ProtectSystem"]) == ("notify", "lakestream", "strict")
    assert int(service["TimeoutStopSec"]) > 10


def test_who_supervises_the_daemon_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell_supervisor("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing:
        hearing.bind(str(tmp_path / "s"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
        tell_supervisor("READY=1")
        assert hearing.recv(100) == b"READY=1"
