"""The gates of size hold what they say."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def gates() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "gates.py"
    spec = importlib.util.spec_from_file_location("gates", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_house_is_within_its_gates(gates: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert (gates.main(), capsys.readouterr().out) == (0, "")


def test_more_and_less_than_is_written_down_are_told(
    gates: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = {"files in nowhere/": 14, "files in storage/": 2, "files in cli/": 1}
    monkeypatch.setattr(gates, "ALLOWED", {**gates.ALLOWED, **allowed})
    monkeypatch.setattr(gates, "MOST_FILES", 0)
    assert gates.main() == 1
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("files in ")]
    assert "files in nowhere/: within the gate; write that down in place of 14" in said
    assert "files in storage/: 1; write that down in place of 2" in said
    assert "files in server/: 1, allowed are none beyond the gate" in said
    assert not any(line.startswith("files in cli/:") for line in said)


def test_kinds_and_views_are_seen(gates: ModuleType) -> None:
    tree = ast.parse(
        "isinstance(x, (IntervalTrigger, int)); isinstance(x, int); f.createOrReplaceTempView(v)"
    )
    assert sum(map(gates._asks_kind, ast.walk(tree))) == 1
    assert sum(map(gates._registers, ast.walk(tree))) == 1


def test_saved_keys_of_stored_records_are_seen(gates: ModuleType) -> None:
    tree = ast.parse('p.extra["a"]; p.extra.get("a", 0); "a" in p.extra; p.unknown["a"]; p.extra; extra["a"]')
    assert sum(map(gates._asks_by_key, ast.walk(tree))) == 4
