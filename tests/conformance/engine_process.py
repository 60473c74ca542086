"""An engine in a process of its own: ``python -m tests.conformance.engine_process LAKE CLOCK TIMEZONE``.

Reads one JSON object a line (``{"do": "sql", "text": …, "dialect": …}``), answers with one: what was
asked for, ``{"refused": rendered error}`` or ``{"failed": traceback}``. Ends at ``close`` or at the end
of its input. Everything else that wants to print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.engines import LocalEngine, Refused, encoded

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Answer requests until told to close."""
    path, clock, timezone = Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]), sys.argv[3]
    # Spark and its JVM print to standard output; the answers keep it for themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine: LocalEngine | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            engine = engine or LocalEngine(path, clock, timezone=timezone)
            answer = handlers(engine)[request.pop("do")](**request)
        except Refused as refusal:
            answer = {"refused": str(refusal)}
        except Exception:  # noqa: BLE001 - the other side decides what it means
            answer = {"failed": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if answer == {"closed": True}:
            return


def handlers(engine: LocalEngine) -> dict[str, Callable[..., dict[str, Any]]]:
    """Return what each request does."""

    def sql(text: str, dialect: str) -> dict[str, Any]:
        answer = engine.sql(text, dialect)
        return {"columns": list(answer.columns), "rows": [encoded(row) for row in answer.rows]}

    def insert(table: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        engine.insert(table, rows)
        return {}

    def run() -> dict[str, Any]:
        return {"errors": engine.run()}

    def advance(seconds: float) -> dict[str, Any]:
        engine.advance(timedelta(seconds=seconds))
        return {}

    def occupy(query: str, seconds: float) -> dict[str, Any]:
        engine.occupy(query, timedelta(seconds=seconds))
        return {}

    def fail(query: str, times: int) -> dict[str, Any]:
        engine.fail(query, times)
        return {}

    def close() -> dict[str, Any]:
        engine.close()
        return {"closed": True}

    return {
        "sql": sql,
        "insert": insert,
        "run": run,
        "advance": advance,
        "occupy": occupy,
        "fail": fail,
        "close": close,
    }


if __name__ == "__main__":
    main()
