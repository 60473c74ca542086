"""The image and the compose files, by their own tools: hadolint, and compose without a daemon of Docker's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[3] / "conf" / "deploy"
TOOLS = Path(os.environ["TOOLS"])
SECRETS = {
    "LAKESTREAM_SERVER_TOKEN": "t" * 24,
    "GRAFANA_PASSWORD": "grafana",
    "S3_USER": "somebody",
    "S3_PASSWORD": "something",
}


def test_the_image_is_clean_by_hadolint() -> None:
    linted = [str(TOOLS / "hadolint"), "--no-color", str(DEPLOY / "Dockerfile")]
    done = subprocess.run(linted, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def composed(*files: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Have compose read files as one, and print what it made of them."""
    named = [word for file in files for word in ("-f", str(DEPLOY / file))]
    command = [str(TOOLS / "docker-compose"), *named, "config", "--format", "json"]
    return subprocess.run(
        command, env={"PATH": os.defpath, **given}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("files", [["compose.yml"], ["compose.yml", "compose.s3.yml"]])
def test_compose_reads_the_files(files: list[str]) -> None:
    done = composed(*files, **SECRETS)
    assert done.stderr == ""
    services = json.loads(done.stdout)["services"]
    assert {"lakestream", "prometheus", "grafana"} <= {*services}
    of_daemon = services["lakestream"]["environment"]
    assert ("s3" in services) == (of_daemon.get("LAKESTREAM_LAKE") == "s3://lakes/main")
    pinned = [one["image"] for one in services.values() if "image" in one]
    assert all(":" in image and not image.endswith(":latest") for image in pinned)


@pytest.mark.parametrize("missing", SECRETS)
def test_what_has_to_be_said_is_named(missing: str) -> None:
    given = {name: value for name, value in SECRETS.items() if name != missing}
    assert missing in composed("compose.yml", "compose.s3.yml", **given).stderr
