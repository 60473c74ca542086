"""Assets for Dagster: each output of a lake's streams is one, and is materialized by taking what is new."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    Failure,
    MaterializeResult,
    TableColumn,
    TableColumnDep,
    TableColumnLineage,
    TableSchema,
    multi_asset,
)

from lakestream.integrations.running import Ran, run_streams
from lakestream.lake import Lake
from lakestream.observation.lineage import StreamLineage
from lakestream.settings import Settings

# Dagster reads the types of the functions that it calls, and takes no texts for them.


def lakestream_assets(
    root: str,
    *,
    name: str = "lakestream",
    settings: Settings | None = None,
    **of_each: Any,  # noqa: ANN401 - Dagster's
) -> AssetsDefinition:
    """Return an asset for each table that the streams of a lake write, as they are now.

    The key of a table is its database and name; tables that streams read are what it depends on. Selected
    assets are materialized by running their streams. ``of_each`` is said of each asset (``group_name``,
    ``automation_condition``, ``owners``, …). Raises LakeError LAKE_NOT_FOUND.
    """
    with Lake(root, settings=settings, create=False) as lake:
        writers = _writers(lake)
        specs = [_spec(lake, table, streams, of_each) for table, streams in writers.items()]

    @multi_asset(name=name, specs=specs, can_subset=True)  # type: ignore[untyped-decorator]
    def taken(context: AssetExecutionContext) -> Iterator[MaterializeResult[None]]:
        chosen = {table: writers[table] for table in writers if _key(table) in context.selected_asset_keys}
        names = [one.stream for streams in chosen.values() for one in streams]
        with Lake(root, settings=settings, create=False) as lake:
            ran = run_streams(lake, names)
        failed: dict[str, str] = {}
        for table, streams in chosen.items():
            of_table = [ran[one.stream] for one in streams]
            errors = {one.stream: ran[one.stream].error or "" for one in streams if ran[one.stream].error}
            failed |= errors
            if not errors:
                yield MaterializeResult(asset_key=_key(table), metadata=_did(of_table))
        if failed:
            said = "; ".join(f"{stream}: {error}" for stream, error in failed.items())
            raise Failure(f"streams do not go on: {said}", metadata=failed)

    return taken


def _key(table: str) -> AssetKey:
    return AssetKey(table.split(".", 1))


def _writers(lake: Lake) -> dict[str, list[StreamLineage]]:
    """Return the streams that write each table."""
    writers: dict[str, list[StreamLineage]] = defaultdict(list)
    for one in lake.lineage(columns=True).streams:
        if one.writes is not None:
            writers[one.writes].append(one)
    return dict(writers)


def _spec(lake: Lake, table: str, streams: Sequence[StreamLineage], of_each: dict[str, Any]) -> AssetSpec:
    shown = lake.sql("DESCRIBE " + ".".join(f"`{part}`" for part in table.split(".", 1)))
    columns = [TableColumn(name, kind, comment or None) for name, kind, _, comment in shown.fetchall()]
    deps = {
        column.column: [TableColumnDep(_key(one.table), one.column) for one in column.origins or ()]
        for stream in streams
        for column in stream.columns
    }
    return AssetSpec(
        _key(table),
        deps=sorted({_key(read) for stream in streams for read in stream.reads}),
        description=shown.message or None,
        metadata={
            "dagster/column_schema": TableSchema(columns=columns),
            "dagster/column_lineage": TableColumnLineage(deps),
            "lakestream/streams": ", ".join(stream.stream for stream in streams),
        },
        kinds={"lakestream", "deltalake"},
        **of_each,
    )


def _did(streams: Sequence[Ran]) -> dict[str, int | float]:
    """Return what a run did for the streams of a table."""
    return {
        "rows_in": sum(one.rows_in for one in streams),
        "rows_written": sum(one.rows_out for one in streams),
        "ticks": sum(one.ticks for one in streams),
        "seconds": sum(one.seconds for one in streams),
    }
