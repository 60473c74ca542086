"""What a call must not import: start-up time is decided here."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lakestream.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HEAVY = ("pyspark", "pyarrow", "pandas", "sqlglot", "pydantic", "deltalake", "apscheduler", "rich")
NOT_FOR_FEW_ROWS = (
    *("pandas", "pyspark", "py4j", "apscheduler", "fastapi", "uvicorn", "websockets"),
    *("asyncio", "numpy.ma", "pydantic", "rich", "tenacity"),
)
COMMANDS_MODULES = re.compile(r"lakestream\.cli\.(?!base)[a-z]+\.")
FOR_NEW_QUERIES = ("lakestream.storage.small.dialect", "sqlglot.generators.duckdb")


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["status", "--help"], ["--version"], ["completion", "zsh"]]
)
def test_a_call_without_a_lake_imports_nothing_heavy(arguments: list[str]) -> None:
    ran = run_python(
        "import sys\nfrom lakestream.cli import cli\n"
        f"try:\n    cli.main({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    assert ran.stderr.strip() == "[]"


def test_calls_over_few_rows_import_nothing_that_they_need_not(tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path, spark=spark) as lake:
        lake.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE) TAGS (g INT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM source PARTITION BY tbname INTO target "
            "AS SELECT _twstart AS start, avg(v) AS mean, count(*) AS n FROM %%trows"
        )
    inserted = (
        "INSERT INTO d1 USING source TAGS (1) VALUES ('2025-01-01 00:00:00', 7.5) ('2025-01-01 00:01:00', 2)"
    )
    calls = [["sql", inserted], ["run"], ["sql", "SELECT mean, n FROM target"], ["status"]]
    ran = run_python(
        f"import sys\nfrom lakestream.cli import main\nfor call in {calls!r}:\n"
        f"    sys.argv = ['lakestream', '--lake', {str(tmp_path)!r}, *call]\n"
        "    try:\n        main()\n    except SystemExit as ended:\n        assert not ended.code, call\n"
        f"print([name for name in {NOT_FOR_FEW_ROWS!r} if name in sys.modules], file=sys.stderr)"
    )
    assert "7.5" in ran.stdout
    assert ran.stderr.splitlines()[-1] == "[]"


def test_a_call_loads_its_command_and_rewrites_no_query_that_an_earlier_one_has_rewritten(
    tmp_path: Path,
) -> None:
    lake, source = tmp_path / "lake", "USING source TAGS (1) VALUES"
    with Lake(lake) as opened:
        opened.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE) TAGS (g INT)")
        opened.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM source PARTITION BY tbname INTO target "
            "AS SELECT _twstart AS start, avg(v) AS mean, count(*) AS n FROM %%trows"
        )
    for minute in range(3):  # the second tick asks otherwise than the first, and the third as the second
        with Lake(lake) as opened:
            opened.sql(f"INSERT INTO d1 {source} ('2025-01-01 00:0{minute}:00', 7.5)")
        ran = run_python(
            "import os, sys\n"
            f"os.environ['XDG_CACHE_HOME'] = {str(tmp_path)!r}\nfrom lakestream.cli import main\n"
            f"sys.argv = ['lakestream', '--lake', {str(lake)!r}, '--output', 'json', 'run']\n"
            "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
            "print(*sys.modules, sep='\\n', file=sys.stderr)"
        )
    assert '"ticks": 1' in ran.stdout
    loaded = set(ran.stderr.splitlines())
    assert {name for name in loaded if COMMANDS_MODULES.match(name)} == {"lakestream.cli.streams.run_command"}
    assert not loaded & {*FOR_NEW_QUERIES}


@pytest.mark.parametrize(
    "before", ["", "import pyarrow as pa; pa.array([1])", "import pyarrow as pa; pa.array([1]).to_pandas()"]
)
def test_arrow_knows_what_is_of_pandas_whenever_that_is_imported(before: str) -> None:
    ran = run_python(
        "from lakestream.cli.base.pandas import leave_pandas_for_later\n"
        f"leave_pandas_for_later()\n{before}\nimport pandas as pd\nimport pyarrow as pa\n"
        "values = pd.Series([1.0, float('nan')])\n"
        "print(pa.array(values).null_count, pa.table(pd.DataFrame({'v': values}))['v'].null_count)"
    )
    assert ran.stdout.split() == ["1", "1"]
