"""Bring a lake's streams up to date once: what ``lakestream run`` does, as a job's entry point.

Runs wherever lakestream is installed: on a Databricks cluster with the cluster's own Spark (see
``databricks.yml``), by spark-submit, or by hand: ``python jobs/run_streams.py --lake ./lake``.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lakestream.errors import StreamError
from lakestream.lake import Lake
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all streams until idle; raises StreamError STREAM_FAILED, which fails the job, when one failed."""
    parser = argparse.ArgumentParser(description="Bring a lake's streams up to date.")
    parser.add_argument("--lake", required=True, help="path or URI of the lake")
    parser.add_argument("--profile", help="profile of settings, for example databricks")
    options = parser.parse_args(arguments)
    with Lake(options.lake, create=False, settings=Settings(profile=options.profile)) as lake:
        for tick in lake.run(until="idle").ticks:
            print(f"{tick.stream} tick {tick.tick}: {tick.rows_in} rows in, {tick.rows_out} out")  # noqa: T201
        failed = [stream for stream in lake.streams() if stream.status in ("Failed", "Retrying")]
    if failed:
        names = ", ".join(str(stream.name) for stream in failed)
        raise StreamError("STREAM_FAILED", f"failed: {names}", hint="`lakestream status` says why")


if __name__ == "__main__":
    main()
