"""A tick as OpenLineage has it: a run of a job, with its datasets and the lineage of their columns."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    OutputDatasetFacet,
    RunFacet,
    column_lineage_dataset,
    documentation_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
    sql_job,
    symlinks_dataset,
)

from lakestream import __version__
from lakestream.covered import redacted_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.streams.origins import ColumnLineage
    from lakestream.storage.names.table_info import TableInfo

PRODUCER = f"urn:lakestream:{__version__}"
"""Who tells of the events."""


@dataclass(frozen=True)
class Told:
    """A stream or a continuous query (``kind``: ``STREAM``, ``QUERY``) as events tell of it.

    ``reads`` and ``writes`` are its tables by name (``database.name``), ``columns`` what those of a table
    that it writes are made of.
    """

    uuid: str
    job: str
    kind: str
    sql: str
    reads: Mapping[str, TableInfo]
    writes: Mapping[str, TableInfo]
    columns: Mapping[str, tuple[ColumnLineage, ...]]


def events_of(told: Told, report: TickReport, ended: datetime, namespace: str) -> tuple[RunEvent, RunEvent]:
    """Return that a tick has begun, and that it is complete or has failed (``ended``: when, in UTC).

    The same tick is the same run, however often it is told of; a tick that failed is one of its own.
    """
    attempt = f":{ended.isoformat()}" if report.error else ""
    run_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{told.uuid}:{report.tick}{attempt}"))
    job = _job(told, namespace)
    inputs = [_input(info, namespace) for info in told.reads.values()]
    outputs = [_output(told, name, report, namespace) for name in told.writes]
    begun = ended - timedelta(seconds=report.seconds)
    start = RunEvent(
        eventTime=begun.isoformat(),
        producer=PRODUCER,
        run=Run(run_id, {"processing_engine": _engine()}),
        job=job,
        eventType=RunState.START,
        inputs=inputs,
        outputs=[],
    )
    facets: dict[str, RunFacet] = {"processing_engine": _engine()}
    if report.error:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            report.error, "SQL", producer=PRODUCER
        )
    end = RunEvent(
        eventTime=ended.isoformat(),
        producer=PRODUCER,
        run=Run(run_id, facets),
        job=job,
        eventType=RunState.FAIL if report.error else RunState.COMPLETE,
        inputs=inputs,
        outputs=outputs,
    )
    return start, end


def _engine() -> processing_engine_run.ProcessingEngineRunFacet:
    return processing_engine_run.ProcessingEngineRunFacet(__version__, "lakestream", producer=PRODUCER)


def _job(told: Told, namespace: str) -> Job:
    kind = job_type_job.JobTypeJobFacet("STREAMING", "LAKESTREAM", told.kind, producer=PRODUCER)
    text = sql_job.SQLJobFacet(redacted_text(told.sql), producer=PRODUCER)
    return Job(namespace, told.job, {"jobType": kind, "sql": text})


def place_of(info: TableInfo) -> tuple[str, str]:
    """Return the namespace and the name of a table, which are where it lies, as OpenLineage names files.

    >>> place_of(TableInfo("main", "t", "s3://factory/lake/main/t", "table", (), "ts", ()))
    ('s3://factory', 'lake/main/t')
    """
    scheme, separator, path = info.path.partition("://")
    if not separator:
        return "file", info.path
    bucket, _, key = path.partition("/")
    return f"{scheme}://{bucket}", key


def _facets(info: TableInfo, namespace: str) -> dict[str, DatasetFacet]:
    shown = [column for column in info.columns if column.name not in info.hidden]
    fields = [
        schema_dataset.SchemaDatasetFacetFields(column.name, column.type, column.comment) for column in shown
    ]
    name = symlinks_dataset.Identifier(namespace, f"{info.database}.{info.name}", "TABLE")
    text = documentation_dataset.DocumentationDatasetFacet(info.comment or "", producer=PRODUCER)
    return {
        **({"documentation": text} if info.comment else {}),
        "schema": schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet([name], producer=PRODUCER),
    }


def _input(info: TableInfo, namespace: str) -> InputDataset:
    return InputDataset(*place_of(info), facets=_facets(info, namespace))


def _output(told: Told, name: str, report: TickReport, namespace: str) -> OutputDataset:
    info, columns = told.writes[name], told.columns.get(name, ())
    facets = _facets(info, namespace)
    known = {column.column: column.origins for column in columns if column.origins is not None}
    copied = {column.column for column in columns if column.copied}
    fields = {
        column: column_lineage_dataset.Fields(
            [
                column_lineage_dataset.InputField(
                    *place_of(told.reads[origin.table]), origin.column, [_step(is_copy=column in copied)]
                )
                for origin in origins
                if origin.table in told.reads
            ]
        )
        for column, origins in known.items()
    }
    facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields, producer=PRODUCER)
    rows = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        report.rows_out, producer=PRODUCER
    )
    # How many of the rows went into which of several tables is not known.
    counted: dict[str, OutputDatasetFacet] = {"outputStatistics": rows} if len(told.writes) == 1 else {}
    return OutputDataset(*place_of(info), outputFacets=counted, facets=facets)


def _step(*, is_copy: bool) -> column_lineage_dataset.Transformation:
    return column_lineage_dataset.Transformation("DIRECT", "IDENTITY" if is_copy else "TRANSFORMATION")
