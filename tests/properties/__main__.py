"""Run many random histories: ``python -m tests.properties --count 1000 --seed 7``.

Histories come in batches, each with a seed of its own, by two processes. A history that fails is made
smaller and written to ``build/failure-SEED.py``, a script whose exit status is 1 while it fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BATCH = 50
"""Histories of one seed."""
FOLDER = Path("build")


def main() -> int:
    """Run the batches; exit status 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties")
    parser.add_argument("--count", type=int, default=200, help="how many histories (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="other seeds give other histories (default: 1)")
    parser.add_argument("--processes", type=int, default=2, help="how many at once (default: 2)")
    options = parser.parse_args()
    sizes = [min(BATCH, options.count - done) for done in range(0, options.count, BATCH)]
    seeds = [f"{options.seed}" if n == 0 else f"{options.seed}-{n}" for n in range(len(sizes))]
    with ThreadPoolExecutor(options.processes) as pool:
        failed = [seed for seed, good in zip(seeds, pool.map(_batch, seeds, sizes), strict=True) if not good]
    sys.stdout.write(f"{options.count} histories, {len(failed)} of {len(seeds)} batches failed\n")
    return 1 if failed else 0


def _batch(seed: str, count: int) -> bool:
    """Run a batch in a process of its own: a JVM that has seen thousands of lakes gets slow."""
    command = [sys.executable, "-m", "tests.properties.batch", seed, str(count), str(FOLDER)]
    status = subprocess.run(command, check=False).returncode
    sys.stdout.write(f"seed {seed}: {count} histories {'failed' if status else 'hold'}\n")
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
