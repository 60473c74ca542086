"""The notebooks of docs/ run from top to bottom, in a kernel of this interpreter, and show their results."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import ROOT
from tests.small import INTERPRETED

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
KERNEL = "of-this-test"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name a kernel of this interpreter, which reads no settings and keeps no history of the user's."""
    spec = tmp_path / "jupyter" / "kernels" / KERNEL / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": command, "display_name": KERNEL, "language": "python"}))
    for variable in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path / "jupyter"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("LAKESTREAM_MASTER", "local[2]")
    monkeypatch.setenv("LAKESTREAM_SPARK_CONF", json.dumps(INTERPRETED))
    return KERNEL


def read(path: Path) -> Any:
    """Return a notebook."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def outputs(notebook: Any) -> list[dict[str, str]]:
    """Return what the cells show, each by its kinds (text/plain, text/html)."""
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [dict(output.data) for output in shown if output.output_type == "execute_result"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_as_it_was_written(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)


@pytest.mark.spark
@pytest.mark.slow
def test_the_stream_of_a_notebook_shows_its_result(kernel: str, tmp_path: Path) -> None:
    notebook = read(ROOT / "docs" / "notebooks" / "stream.ipynb")
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name=kernel, resources=resources).execute()
    attached, created, ticks, table, means, holds = outputs(notebook)
    assert attached["text/html"].startswith("<p>attached ")
    assert created["text/html"] == "<p>created stream main.per_minute, writing main.minutes</p>"
    assert ticks["text/plain"] == "[('history', 4, 1), ('changes', 3, 2)]"
    assert table["text/html"].startswith("<table><thead><tr><th>minute</th><th>n</th><th>mean</th></tr>")
    assert [table["text/html"].count(f"<td>{mean}</td>") for mean in (1.5, 4.0, 8.5)] == [1, 1, 1]
    assert "Timestamp('2025-01-01 00:02:00+0000', tz='UTC'): 8.5" in means["text/plain"]
    assert holds["text/plain"] == "True"
    assert (tmp_path / "readings" / "_delta_log").is_dir()
