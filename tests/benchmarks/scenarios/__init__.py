"""What is measured, by which systems: each entry runs once in a folder and returns figures by metric.

Whatever a system computed is held against what it had to compute before its figures count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.nexmark.queries import QUERIES
from tests.benchmarks.scenarios import engines, floors, jobs, nexmark
from tests.benchmarks.scenarios.around import around_rows
from tests.benchmarks.scenarios.bursts import late_burst, same_rows
from tests.benchmarks.scenarios.catching_up import (
    catch_up_cut,
    catch_up_lakestream,
    catch_up_projection,
    catch_up_projection_streaming,
    catch_up_sessions_streaming,
    catch_up_streaming,
)
from tests.benchmarks.scenarios.commands import cli_help, cli_run, cli_status
from tests.benchmarks.scenarios.lookups import (
    all_windows,
    changed_row,
    duckdb_anew,
    make_looked_up,
    merged_row,
)
from tests.benchmarks.scenarios.many import (
    MANY,
    THOUSAND,
    alike,
    known_groups,
    many_streams,
    many_streams_apart,
)
from tests.benchmarks.scenarios.model import Preparation, Scenario
from tests.benchmarks.scenarios.preparations import make_caught_up, make_large
from tests.benchmarks.scenarios.serving import (
    notify_outage,
    notify_throughput,
    serve_notify_lakestream,
    serve_notify_streaming,
    takeover,
)
from tests.benchmarks.scenarios.ticks import (
    LAKESTREAM,
    STREAMING,
    large_source_lakestream,
    large_source_streaming,
    late_row,
    small_tick,
    small_tick_cut,
    small_tick_thousandth,
)
from tests.benchmarks.scenarios.waiting import due_instant, idle_poll, idle_scheduler, make_scheduled
from tests.benchmarks.scenarios.windows import CUTS, HOPPING, TUMBLING

if TYPE_CHECKING:
    from tests.benchmarks.scenarios.model import Run
    from tests.benchmarks.scenarios.windows import Cut


def _cut_systems(kind: str, cut: Cut) -> dict[str, Run]:
    systems: dict[str, Run] = {"lakestream": catch_up_cut(cut)}
    if kind == "session":
        systems["structured_streaming"] = catch_up_sessions_streaming
        systems["duckdb_job"] = jobs.catch_up_sessions
        systems["flink"] = engines.flink_sessions
    return systems | {name: floors.catch_up_cut(kind, cut, query) for name, query in floors.CUTS.items()}


PREPARATIONS = {
    "large": Preparation(make_large),
    "caught_up": Preparation(make_caught_up, start="large"),
    "scheduled": Preparation(make_scheduled),
    "looked_up": Preparation(make_looked_up),
}

SCENARIOS = {
    "catchup_tumbling": Scenario(
        {
            "lakestream": catch_up_lakestream(TUMBLING),
            "structured_streaming": catch_up_streaming(TUMBLING),
            "merge_job": jobs.catch_up_by_merge,
            "flink": engines.flink_catch_up("streaming"),
            "flink_batch": engines.flink_catch_up("batch"),
            "pathway": engines.pathway_catch_up,
            "duckdb_job": jobs.catch_up(TUMBLING),
            "duckdb": floors.catch_up(TUMBLING),
        }
    ),
    "small_tick": Scenario(
        {
            "lakestream": small_tick(LAKESTREAM),
            "structured_streaming": small_tick(STREAMING),
            "duckdb_job": small_tick(jobs.DUCKDB_JOB),
            "merge_job": small_tick(jobs.MERGE_JOB),
            "flink": small_tick(engines.FLINK),
            "pathway": small_tick(engines.PATHWAY),
        }
    ),
    "small_tick_thousandth": Scenario(
        {
            "lakestream": small_tick_thousandth(LAKESTREAM),
            "duckdb_job": small_tick_thousandth(jobs.DUCKDB_JOB),
        }
    ),
    "catchup_hopping": Scenario(
        {
            "lakestream": catch_up_lakestream(HOPPING),
            "structured_streaming": catch_up_streaming(HOPPING),
            "duckdb_job": jobs.catch_up(HOPPING),
            "duckdb": floors.catch_up(HOPPING),
        }
    ),
    "small_tick_large_source": Scenario(
        {"lakestream": large_source_lakestream, "structured_streaming": large_source_streaming}, "caught_up"
    ),
    "late_row": Scenario(
        {
            "lakestream": late_row(LAKESTREAM, caught_up=True),
            "duckdb_job": late_row(jobs.DUCKDB_JOB),
            "merge_job": late_row(jobs.MERGE_JOB_LATE),
        },
        "caught_up",
    ),
    "late_burst": Scenario({"lakestream": late_burst}, "caught_up"),
    "catchup_same_rows": Scenario({"lakestream": same_rows}, "caught_up"),
    **{f"catchup_{kind}": Scenario(_cut_systems(kind, cut)) for kind, cut in CUTS.items()},
    **{f"small_tick_{kind}": Scenario({"lakestream": small_tick_cut(cut)}) for kind, cut in CUTS.items()},
    "catchup_projection": Scenario(
        {"lakestream": catch_up_projection, "structured_streaming": catch_up_projection_streaming}
    ),
    "around_rows": Scenario({"lakestream": around_rows}),
    "changed_lookup": Scenario(
        {
            "lakestream": changed_row,
            "lakestream_all": all_windows,
            "merge_job": merged_row,
            "duckdb": duckdb_anew,
        },
        "looked_up",
    ),
    "idle_poll": Scenario({"lakestream": idle_poll}, "caught_up"),
    "idle_scheduler": Scenario({"lakestream": idle_scheduler}, "scheduled"),
    "due_instant": Scenario({"lakestream": due_instant}, "scheduled"),
    "serve_notify": Scenario(
        {"lakestream": serve_notify_lakestream, "structured_streaming": serve_notify_streaming}
    ),
    "notify_throughput": Scenario({"lakestream": notify_throughput}),
    "notify_outage": Scenario({"lakestream": notify_outage}),
    "many_streams": Scenario({"lakestream": many_streams(alike)}),
    **{
        f"many_streams_{name}": Scenario(
            {"lakestream": many_streams_apart(count), "duckdb_job": jobs.many_streams(count)}
        )
        for name, count in (("apart", MANY), ("thousand", THOUSAND))
    },
    "takeover": Scenario({"lakestream": takeover}),
    **{
        f"known_groups_{name}": Scenario(
            {"lakestream": known_groups(groups), "duckdb_job": jobs.known_groups(groups)}
        )
        for name, groups in (("1k", 1_000), ("1m", 1_000_000))
    },
    **{
        f"nexmark_{name}": Scenario({"lakestream": nexmark.lakestream(name), "duckdb": nexmark.duck(name)})
        for name in QUERIES
    },
    "cli_run": Scenario({"lakestream": cli_run, "duckdb_job": jobs.scheduled}),
    "cli_status": Scenario({"lakestream": cli_status}),
    "cli_help": Scenario({"lakestream": cli_help}),
}
