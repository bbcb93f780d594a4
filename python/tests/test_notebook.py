"""The notebook runs from its first cell to the decision, as it is and with a trace of the user; without the package, it says what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "from-trace-to-decision.ipynb"


def run(folder, monkeypatch, trace=None):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("numpy")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.delenv("NITRO_TRACE", raising=False)
    if trace:
        monkeypatch.setenv("NITRO_TRACE", trace)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = ["".join(out.get("text", "") or out.get("data", {}).get("text/plain", "") for out in cell.outputs) for cell in cells]
    return cells, texts


def test_it_runs_as_it_is(tmp_path, monkeypatch):
    _, texts = run(tmp_path, monkeypatch)
    assert "60,000 requests" in texts[2]
    assert "MiB" in texts[3] and "s3-fifo" in texts[4]
    assert "of reads hit with" in texts[5] and "The whole simulation" in texts[5]
    assert "'cache_bytes'" in texts[-1] and "'ssd_years'" in texts[-1]


def test_it_runs_with_a_trace_of_the_user(trace, tmp_path, monkeypatch):
    _, texts = run(tmp_path, monkeypatch, trace)
    assert "30,000 requests" in texts[2] and "'cache_bytes'" in texts[-1]


def test_without_the_package_it_says_what_to_do(tmp_path):
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    first = next("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Nothing but the standard library.
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", first], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode and "pip install './python[arrow,numpy]'" in ran.stderr


def test_it_is_kept_without_output():
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count")
