from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING

import pytest

from lakestream.errors import PrerequisiteError
from lakestream.storage.sessions import jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DELTA = "io.delta_delta-spark_4.2_2.13-4.4.0.jar"
S3 = "org.apache.hadoop_hadoop-aws-3.5.0.jar"


def test_a_given_folder_is_used_as_it_is(tmp_path: Path) -> None:
    for name in (DELTA, "io.delta_delta-storage-4.4.0.jar"):
        (tmp_path / name).touch()
    assert [jar.name for jar in jars.find_jars(tmp_path)] == [DELTA, "io.delta_delta-storage-4.4.0.jar"]


@pytest.mark.parametrize("name", [None, "io.delta_delta-spark_4.2_2.13-4.3.0.jar"])
def test_a_given_folder_without_this_delta_is_refused(name: str | None, tmp_path: Path) -> None:
    if name:
        (tmp_path / name).touch()
    with pytest.raises(PrerequisiteError) as caught:
        jars.find_jars(tmp_path)
    assert caught.value.code == "JARS_MISSING"
    assert "delta-spark_4.2_2.13-4.4.0.jar" in caught.value.message
    assert ("pip install delta-spark==4.3.0" in caught.value.hint) is (name is not None)


def test_the_cache_is_the_users_and_of_these_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars.cache_folder() == tmp_path / "lakestream" / "jars" / "delta-4.4.0-spark-4.2.0"


def test_jars_that_spark_brings_itself_are_left_out(tmp_path: Path) -> None:
    own, other = tmp_path / "org.slf4j_slf4j-api-1.0.jar", tmp_path / DELTA
    assert jars._beside_spark([own, other]) == [other]


def test_without_a_network_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "spark"
    (fake / "bin").mkdir(parents=True)
    submit = fake / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\necho 'java.net.UnknownHostException: repo' >&2\nexit 1\n", encoding="utf-8")
    submit.chmod(0o755)
    monkeypatch.setattr(jars, "_spark_home", lambda: fake)
    with pytest.raises(PrerequisiteError) as caught:
        jars.resolve_jars(tmp_path / "jars")
    assert caught.value.code == "JARS_UNREACHABLE"
    assert "no network" in caught.value.message
    assert not (tmp_path / "jars").exists()
    assert not list(tmp_path.glob(".jars-*"))


def test_of_a_delta_that_lakestream_is_not_made_with_the_hint_names_the_other() -> None:
    ours, newer = jars.delta_jars(), replace(jars.delta_jars(), jar="delta-spark_4.2_2.13-4.9.9.jar")
    assert "pip install" not in jars._how(ours)
    assert "pip install delta-spark==4.4.0" in jars._how(newer)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The list of what the jars are, which knows one of five bytes."""
    listed = tmp_path / "jars.sha256"
    listed.write_text(f"{hashlib.sha256(b'12345').hexdigest()}  {DELTA}\n", "ascii")
    monkeypatch.setattr(jars, "_HASHES", listed)
    return listed


@pytest.mark.parametrize(
    "fetched", [{DELTA: b"12346"}, {DELTA: b"12345", "org.evil_more-1.0.jar": b""}, {DELTA: b""}]
)
@pytest.mark.usefixtures("known")
def test_a_jar_that_is_another_than_what_was_published_is_not_kept(
    fetched: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(ivy: Path, _needed: jars.Jars) -> list[Path]:
        ivy.mkdir()
        for name, content in fetched.items():
            (ivy / name).write_bytes(content)
        return [ivy / name for name in fetched]

    monkeypatch.setattr(jars, "_fetch", fetch)
    with pytest.raises(PrerequisiteError) as caught:
        jars.resolve_jars(tmp_path / "jars")
    assert caught.value.code == "JARS_DIFFER"
    assert not (tmp_path / "jars").exists()


def test_the_jars_that_are_there_are_those_that_are_listed() -> None:
    jars._check_hashes(jars.find_jars(None), jars.delta_jars())


def test_the_jars_of_stores_are_those_of_sparks_own_hadoop_and_listed() -> None:
    needed, listed = jars.store_jars(), jars._HASHES.read_text("ascii")
    assert needed.coordinates == "org.apache.hadoop:hadoop-aws:3.5.0"
    assert f"org.apache.hadoop_{needed.jar}\n" in listed
    assert "software.amazon.awssdk_bundle-" in listed


def test_the_jars_of_stores_lie_beside_those_of_delta(tmp_path: Path) -> None:
    for name in (DELTA, f"s3/{S3}", "s3/software.amazon.awssdk_bundle-2.35.4.jar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = jars.find_store_jars(jars.find_jars(tmp_path), tmp_path)
    assert [jar.name for jar in found] == [S3, "software.amazon.awssdk_bundle-2.35.4.jar"]


def test_the_jars_of_stores_may_lie_among_those_of_delta(tmp_path: Path) -> None:
    for name in (DELTA, S3):
        (tmp_path / name).touch()
    delta = jars.find_jars(tmp_path)
    assert [jar.name for jar in [*delta, *jars.find_store_jars(delta, tmp_path)]] == [DELTA, S3]


def test_a_given_folder_without_the_jars_of_stores_is_refused(tmp_path: Path) -> None:
    (tmp_path / DELTA).touch()
    with pytest.raises(PrerequisiteError) as caught:
        jars.find_store_jars(jars.find_jars(tmp_path), tmp_path)
    assert caught.value.code == "JARS_MISSING"
    assert "hadoop-aws-3.5.0.jar" in caught.value.message


@pytest.mark.usefixtures("known")
def test_the_jars_of_stores_are_fetched_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(ivy: Path, needed: jars.Jars) -> list[Path]:
        ivy.mkdir()
        (ivy / f"org.apache.hadoop_{needed.jar}").write_bytes(b"12345")
        return [*ivy.iterdir()]

    monkeypatch.setattr(jars, "_fetch", fetch)
    (tmp_path / DELTA).touch()
    found = jars.find_store_jars(jars.find_jars(tmp_path), None)
    assert found == [tmp_path / "s3" / S3]
    assert "fetching Hadoop's jars for S3 (690 MB), once, into" in capsys.readouterr().err


@pytest.mark.usefixtures("known")
def test_fetching_is_told_of_with_the_bytes_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def fetch(ivy: Path, _needed: jars.Jars) -> list[Path]:
        (ivy / "jars").mkdir(parents=True)
        (ivy / "jars" / DELTA).write_bytes(b"12345")
        return [ivy / "jars" / DELTA]

    @contextmanager
    def watch(what: str, fetched: Callable[[], int] | None) -> Iterator[None]:
        assert fetched is not None
        before = fetched()
        yield
        seen.append((what, before, fetched()))

    monkeypatch.setattr(jars, "_fetch", fetch)
    assert [jar.name for jar in jars.resolve_jars(tmp_path / "a", watch)] == [DELTA]
    assert seen == [(f"fetching the Delta jars, once, into {tmp_path / 'a'}: Spark needs them", 0, 5)]
    jars.resolve_jars(tmp_path / "b")
    assert f"fetching the Delta jars, once, into {tmp_path / 'b'}" in capsys.readouterr().err


def test_without_spark_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(jars, "version", not_there)
    with pytest.raises(PrerequisiteError) as caught:
        jars.find_jars(None)
    assert (caught.value.code, caught.value.hint) == ("SPARK_MISSING", "pip install 'lakestream[spark]'")


def test_jars_of_another_version_are_named(tmp_path: Path) -> None:
    (tmp_path / "io.delta_delta-spark_4.0_2.13-4.0.0.jar").touch()
    with pytest.raises(PrerequisiteError) as caught:
        jars.find_jars(tmp_path)
    assert caught.value.code == "JARS_MISSING"
    assert "of another version io.delta_delta-spark_4.0_2.13-4.0.0.jar" in caught.value.message
    assert "pip" not in caught.value.hint  # it goes with another Spark
