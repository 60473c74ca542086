"""Cases of which one statement is changed by a few words, run to their end: only errors of ours come of it.

``python -m tests.conformance.changed --count 500 --seed 7``. What a changed case gives is nobody's to say;
but whatever is wrong with a statement is refused, or its stream fails, by a named error, and soon.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream import Settings
from lakestream.clock import SystemClock
from lakestream.storage.sessions.session import spark_session
from tests.conformance.cases import Case, Step, load
from tests.conformance.engines import Engine, LocalEngine, Refused
from tests.conformance.runner import CaseRun, StepNotSupported
from tests.conformance.selection import cases_root

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

_WORDS = """
* ( ) , . + - / % = <> < || ; ' " `
NULL TRUE 0 -1 1 2.5 1e400 9223372036854775807 '' 'x' '2025-01-01' INTERVAL ARRAY MAP STRUCT
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT DISTINCT OVER PARTITION UNION ALL JOIN ON AS AND OR
count sum avg min max first last lag now abs sqrt concat cast explode range sequence to_json
ts v tbname _twstart _twend _tgrpid _wstart %%trows %%tbname %%1 %%2 nothing s out t meters
INTERVAL(1s) SLIDING(1s) SESSION(ts,1s) STATE_WINDOW(v) COUNT_WINDOW(2) PERIOD(1s) 1s 0s 1d 1n
EXACT FILL_HISTORY WATERMARK(1s) EXPIRED_TIME(1s) IGNORE_DISORDER IGNORE_NODATA_TRIGGER
root.** time TUMBLINGWINDOW(ss,1) HOPPINGWINDOW(ss,2,1) FILL(PREV) BIGINT STRING DOUBLE TIMESTAMP
"""
WORDS = _WORDS.split()
TOKEN = re.compile(r"\s+|'[^']*'|[\w.%]+|.", re.DOTALL)
SLOW_SECONDS = 60.0
INTERNAL = re.compile(r"\bINTERNAL\b|defect of lakestream")


def changed(case: Case, drawn: random.Random) -> Case:
    """Return a case of which one statement has other words."""
    places = [number for number, step in enumerate(case.steps) if step.kind == "sql"]
    number = drawn.choice(places)
    said = case.steps[number].said
    texts = [said] if isinstance(said, str) else list(said)
    at = drawn.randrange(len(texts))
    texts[at] = _other_words(texts[at], drawn)
    steps = [*case.steps]
    steps[number] = Step("sql", texts)
    return replace(case, steps=tuple(steps))


def _other_words(text: str, drawn: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(drawn.randint(1, 3)):
        at = drawn.randrange(len(tokens))
        what = drawn.random()
        if what < 0.25:
            tokens[at] = ""
        elif what < 0.5:
            tokens[at] = drawn.choice(WORDS)
        elif what < 0.75:
            tokens.insert(at, f" {drawn.choice(WORDS)} ")
        else:
            tokens[at] = drawn.choice(tokens)
    return "".join(tokens)


def run(case: Case, spark: SparkSession, folder: Path) -> str | None:
    """Run a case to its end, whatever of it is refused; return what is wrong, None for nothing."""

    def start(clock: datetime) -> Engine:
        return LocalEngine(folder, clock, spark, case.timezone)

    steps = CaseRun(case, start, folder)
    clock = SystemClock()
    try:
        for step in case.steps:
            if step.kind in ("restart", "occupy", "fail", "expect_events"):
                break
            begun, refused = clock.monotonic(), ""
            try:
                steps.step(step)
            except (Refused, StepNotSupported) as error:
                refused = str(error)
            except AssertionError:
                pass
            if INTERNAL.search(refused):
                return refused
            if clock.monotonic() - begun > SLOW_SECONDS:
                return f"{step} took {clock.monotonic() - begun:.0f} s"
        found = next((error for error in steps.errors if INTERNAL.search(error)), None)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return traceback.format_exc()
    finally:
        with suppress(Refused):
            steps.close()
    return found


def search(cases: Sequence[Case], count: int, seed: str, spark: SparkSession) -> list[str]:
    """Return what is wrong with ``count`` changed cases."""
    drawn, wrong = random.Random(seed), []
    for _ in range(count):
        case = changed(drawn.choice(cases), drawn)
        folder = Path(tempfile.mkdtemp(prefix="lakestream-changed-"))
        found = run(case, spark, folder / "lake")
        shutil.rmtree(folder, ignore_errors=True)
        if found is not None:
            statements = [step.said for step in case.steps if step.kind == "sql"]
            wrong.append(f"{case.name}\n{statements}\n{found}")
    return wrong


def main() -> int:
    """Run as many as are asked for; exit status 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.changed")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    spark = spark_session(Settings(master="local[2]", driver_memory="2g"))
    # What is killed runs in a process of its own, with a Spark for each.
    cases = [case for case in load(cases_root()) if "kill" not in case.ends]
    wrong = search(cases, options.count, options.seed, spark)
    for one in wrong:
        sys.stdout.write(f"{one}\n\n")
    sys.stdout.write(f"{options.count} changed cases, {len(wrong)} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
