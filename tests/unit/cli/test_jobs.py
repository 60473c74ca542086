"""The bundle: what is refused of it, and its jobs run on a lake that says what a test wants to hear."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from lakestream.cli.jobs.bundle import Bundle
from lakestream.errors import ConfigError
from lakestream.observation.comparison import Difference
from tests.unit.cli.conftest import status, verification

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result as Outcome

    from tests.unit.cli.conftest import FakeLake

FILE = Path(__file__).parents[3] / "jobs" / "databricks.yml"


@pytest.fixture
def content() -> dict[str, Any]:
    """The project's own bundle, each part of it for itself."""
    parsed: dict[str, Any] = json.loads(json.dumps(yaml.safe_load(FILE.read_text(encoding="utf-8"))))
    return parsed


def put(content: Any, path: str, value: Any) -> None:
    *names, last = path.split("/")
    for name in names:
        content = content[int(name) if name.isdigit() else name]
    content[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("bundle/nmae", "x", "bundle.nmae: is not known here"),
        ("resources/jobs/catch_up/max_retries", 3, "max_retries: is not known here"),
        ("resources/jobs/catch_up/max_concurrent_runs", "many", "max_concurrent_runs: "),
        ("resources/jobs/catch_up/tasks", [], "resources.jobs.catch_up.tasks: "),
        ("resources/jobs/catch_up/tasks/0/python_wheel_task/package_name", "os", "package_name: "),
        ("resources/jobs/catch_up/schedule/quartz_cron_expression", "daily", "quartz_cron_expression: "),
        ("resources/jobs/catch_up/tasks/0/job_cluster_key", "smal", "has no job cluster smal"),
        ("resources/jobs/maintenance/tasks/1/depends_on", [{"task_key": "rn"}], "has no task rn"),
        ("resources/jobs/maintenance/tasks/0/depends_on", [{"task_key": "maintain"}], "wait for each other"),
        ("resources/jobs/maintenance/tasks/1/task_key", "run", "two tasks of one key"),
        (
            "resources/jobs/catch_up/tasks/0/python_wheel_task/parameters",
            ["{{job.parameters.lak}}"],
            "no parameter lak",
        ),
        ("resources/jobs/catch_up/name", "${var.lak}", "has no variable var.lak"),
        ("targets", {}, "targets: "),
        ("targets/prod/workspace", None, "targets.prod: "),
        ("targets/prod/workspace/root_path", "here", "root_path: "),
        (
            "resources/jobs/catch_up/job_clusters/0/new_cluster/data_security_mode",
            "X",
            "data_security_mode: ",
        ),
    ],
)
def test_what_a_bundle_may_not_say(
    content: dict[str, Any], tmp_path: Path, path: str, value: Any, message: str
) -> None:
    put(content, path, value)
    file = tmp_path / "bundle.yml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        Bundle(file)
    assert raised.value.code == "BUNDLE_INVALID"
    assert message in raised.value.message


@pytest.mark.skipif(shutil.which("databricks") is None, reason="Databricks' command line has the schema")
def test_the_bundle_is_one_by_the_schema_of_databricks(content: dict[str, Any]) -> None:
    printed = subprocess.run(["databricks", "bundle", "schema"], capture_output=True, check=True).stdout
    # Python's expressions have no \\p: any word is taken for it.
    schema = json.loads(re.sub(rb"\\\\p\{\w+\}", rb"\\\\w", printed))
    jsonschema.validators.validator_for(schema)(schema).validate(content)


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "\x00"])
def test_what_is_no_bundle(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bundle.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="BUNDLE_INVALID"):
        Bundle(file)
    with pytest.raises(ConfigError, match="BUNDLE_NOT_FOUND"):
        Bundle(tmp_path / "none.yml")


def test_a_target_gives_the_parameters() -> None:
    bundle = Bundle(FILE)
    (task,) = bundle.tasks("catch_up", None, {"streams": "a,b"})
    assert task.arguments == ("run", "--lake=./lake", "--profile=local", "--streams=a,b")
    (task,) = bundle.tasks("catch_up", "prod", {})
    assert task.arguments[1:3] == ("--lake=/Volumes/main/default/lake", "--profile=databricks")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "catchup"], "JOB_NOT_FOUND", "did you mean catch_up?"),
        (["run", "catch_up", "--target", "prd"], "TARGET_NOT_FOUND", "did you mean prod?"),
        (["run", "catch_up", "--param", "stream=s"], "PARAMETER_UNKNOWN", "did you mean streams?"),
        (["run", "recalculation", "--param", "stream=s"], "PARAMETER_MISSING", "--param from=…"),
        (["run", "catch_up", "--param", "lake="], "PARAMETER_MISSING", "--param lake=…"),
        (["list", "--bundle", "none.yml"], "BUNDLE_NOT_FOUND", "--bundle"),
    ],
)
def test_wrong_names_are_refused(
    call: Callable[..., Outcome], lake: FakeLake, arguments: list[str], code: str, message: str
) -> None:
    outcome = call("job", *arguments)
    assert outcome.exit_code == 78
    assert f"error[{code}]" in outcome.stderr
    assert message in outcome.stderr
    assert lake.asked == []


def test_a_parameter_is_a_name_and_a_value(call: Callable[..., Outcome]) -> None:
    assert call("job", "run", "catch_up", "--param", "lake").exit_code == 2


def test_tasks_run_in_their_order(call: Callable[..., Outcome], lake: FakeLake) -> None:
    lake.statuses = [status(name="a"), status(name="b")]
    outcome = call("job", "run", "verification", "--param", "streams=a,main.b")
    assert outcome.exit_code == 0, outcome.stderr
    asked = [one for one in lake.asked if one[0] in {"run", "verify"}]
    assert asked == [
        ("run", "idle", "a", "main.b"),
        ("verify", "a", None, None),
        ("verify", "main.b", None, None),
    ]


def test_a_failed_task_skips_what_depends_on_it(call: Callable[..., Outcome], lake: FakeLake) -> None:
    lake.statuses = [status(status="Failed", last_error="CHANGES_LOST: version 7 is gone")]
    outcome = call("job", "run", "maintenance", "--output", "json")
    assert outcome.exit_code == 1
    assert json.loads(outcome.stdout)["tasks"] == [
        {"task": "run", "state": "failed", "exit_status": 1},
        {"task": "maintain", "state": "skipped", "exit_status": None},
    ]
    assert ("maintain", False) not in lake.asked
    lake.statuses, lake.verification = [status()], verification(1, 2, Difference((1,), (1, 2.5), None))
    outcome = call("job", "run", "verification")
    assert outcome.exit_code == 1
    assert "main.daily" in outcome.stdout


def test_options_of_the_call_reach_the_tasks(call: Callable[..., Outcome], lake: FakeLake) -> None:
    outcome = call("--lake", "two", "--set", "master=local[1]", "job", "run", "maintenance")
    assert outcome.exit_code == 0, outcome.stderr
    opened = [one for one in lake.asked if one[0] == "open"]
    assert {one[1] for one in opened} == {"two"}
    assert {one[3].master for one in opened} == {"local[1]"}
    assert ("maintain", False) in lake.asked
