"""The matrix: streams by every pair of the dimensions' values, over random histories.

``python -m tests.properties.matrix --count 1000 --seed 7`` tries so many combinations, and prints how many
were tried, refused, equal and red; histories go by batches, each in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from lakestream import Settings
from lakestream.settings import PREFIX
from lakestream.storage.sessions.session import spark_session
from tests.properties.dimensions import covering, sentence
from tests.properties.drawn import COMMITS, Drawn, shown
from tests.properties.many_streams import World
from tests.small import FEW_TABLES, INTERPRETED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.properties.drawn import Step
    from tests.properties.many_streams import Verdict

EACH = 12
"""Streams of a history."""
BATCH = 5
"""Histories of a process: a JVM that has seen hundreds of lakes gets slow."""
PAIRWISE, HISTORIES = "all pairs", 13
"""The seed, and how many of its histories have nearly every pair of values."""
OUTCOMES = ("refused", "equal", "open", "red")


def tried(
    spark: SparkSession,
    seed: str,
    numbers: range,
    commits: int = COMMITS,
    *,
    verifies: bool = True,
) -> Iterator[tuple[str, list[Step], list[Verdict]]]:
    """Try histories of a seed; yield name, steps, and what became of the streams.

    VERIFY is asked unless ``verifies`` is false: its replay takes as long as the streams did.
    """
    chosen = islice(covering(Random(seed), EACH), numbers.stop)
    for number, (history, streams) in enumerate(chosen):
        if number in numbers:
            steps = Drawn(Random(f"{seed} {number}"), history, commits).draw()
            yield f"{seed}:{number}", steps, World(spark, history, steps, verifies=verifies).run(streams)


def reds_shown(name: str, steps: list[Step], verdicts: list[Verdict]) -> str:
    """Return the streams of a history that are red, as text; nothing where none is."""
    reds = [verdict for verdict in verdicts if verdict.outcome == "red"]
    parts = [f"{v.of}\n{sentence(v.of.of, 's', 'o')}\n{v.detail}" for v in reds]
    return "\n--- ".join([f"==== {name}\n{shown(steps)}", *parts]) + "\n" if reds else ""


def batch(seed: str, numbers: range) -> int:
    """Try histories in this process; print what is red and the numbers of each outcome."""
    for variable in [known for known in os.environ if known.startswith(PREFIX)]:
        del os.environ[variable]
    spark = spark_session(
        Settings(master="local[1]", driver_memory="2g", spark_conf={**INTERPRETED, **FEW_TABLES})
    )
    for name, steps, verdicts in tried(spark, seed, numbers):
        counted = Counter(verdict.outcome for verdict in verdicts)
        sys.stdout.write(reds_shown(name, steps, verdicts))
        sys.stdout.write(f"{name}: {', '.join(f'{outcome} {counted[outcome]}' for outcome in OUTCOMES)}\n")
        sys.stdout.flush()
    return 0


def _in_process(seed: str, numbers: range) -> str:
    command = [sys.executable, "-m", "tests.properties.matrix", "--seed", seed]
    command += ["--batch", str(numbers.start), str(numbers.stop)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout)
    sys.stdout.flush()
    return done.stdout


def main() -> int:
    """Try combinations; exit status 1 when one is red."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.matrix")
    parser.add_argument("--count", type=int, default=1000, help="how many combinations (default: 1000)")
    parser.add_argument("--seed", default="1", help="other seeds give other histories (default: 1)")
    parser.add_argument("--processes", type=int, default=2, help="how many at once (default: 2)")
    parser.add_argument("--batch", type=int, nargs=2, metavar=("FROM", "TO"), help="only these histories")
    options = parser.parse_args()
    if options.batch:
        return batch(options.seed, range(*options.batch))
    histories = -(-options.count // EACH)
    batches = [range(at, min(at + BATCH, histories)) for at in range(0, histories, BATCH)]
    with ThreadPoolExecutor(options.processes) as pool:
        texts = list(pool.map(lambda numbers: _in_process(options.seed, numbers), batches))
    counted = _counted("".join(texts))
    named = ", ".join(f"{outcome} {counted[outcome]}" for outcome in OUTCOMES)
    sys.stdout.write(f"tried {sum(counted.values())} combinations: {named}\n")
    return 1 if counted["red"] else 0


def _counted(text: str) -> Counter[str]:
    """Add up what the batches say."""
    counted: Counter[str] = Counter()
    for line in text.splitlines():
        name, _, numbers = line.partition(": ")
        if ":" in name and numbers.startswith("refused "):
            counted.update(
                {outcome: int(n) for outcome, n in (part.split(" ") for part in numbers.split(", "))}
            )
    return counted


if __name__ == "__main__":
    sys.exit(main())
