"""What is in a lake and in no file of the project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.language.iotdb.paths import ROOT
from lakestream.language.quoting import quoted, quoted_path
from lakestream.storage.records.definitions import Definitions
from lakestream.storage.tables.datafiles import data_files, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakestream.statements.workspace import Workspace
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import StreamRecord


@dataclass(frozen=True)
class Unlisted:
    """Something that no file defines, the statement that drops it, and what is lost then.

    ``kept_by`` is the stream that reads a table and stays, None where nothing keeps it.
    """

    kind: str
    name: str
    drop: str
    loss: str = ""
    kept_by: str | None = None
    dialect: str = "tdengine"


def unlisted(at: Workspace, databases: Iterable[str], wanted: set[str]) -> Iterator[Unlisted]:
    """Yield the streams of databases that are not ``wanted``, and their tables, the streams first.

    ``wanted`` are names in lower case, of streams behind ``stream``. The output of a stream that is wanted
    is not listed, nor what it left out.
    """
    inside = {name.lower() for name in databases} - {ROOT}
    records = at.registry.streams()
    going = [r for r in records if r.database.lower() in inside and _stream_name(r) not in wanted]
    for record in reversed(going):
        name = f"{record.database}.{record.name}"
        yield Unlisted("stream", name, f"DROP STREAM {quoted_path(record.database, record.name)}")
    staying = [record for record in records if record not in going]
    for database in at.catalog.databases.names():
        if database.lower() in inside:
            yield from _tables(at, database, wanted, staying)


def _stream_name(record: StreamRecord) -> str:
    return f"stream {record.database}.{record.name}".lower()


def _tables(
    at: Workspace, database: str, wanted: set[str], staying: list[StreamRecord]
) -> Iterator[Unlisted]:
    written = {record.output.lower() for record in staying}
    writers = {record.uuid for record in staying}
    for info in at.catalog.tables(database):
        name = f"{database}.{info.name}"
        if name.lower() in wanted | written or info.writer in writers:
            continue
        readers = [r for r in staying if name.lower() in {source.lower() for source in r.sources}]
        kept_by = f"{readers[0].database}.{readers[0].name}" if readers else None
        drop = f"DROP TABLE {quoted_path(database, info.name)}"
        yield Unlisted("table", name, drop, _loss(at, info), kept_by)


def _loss(at: Workspace, info: TableInfo) -> str:
    if info.external:
        return f"its name only: {info.path} stays"
    table = at.catalog.handles.latest(info.path)
    return f"{rows_of(data_files(table, table.version, info.time_column, None, None)):,} rows"


def unlisted_of_tree(at: Workspace, wanted: set[str]) -> Iterator[Unlisted]:
    """Yield the continuous queries and triggers that are not ``wanted``."""
    definitions = Definitions(at.layout)
    for kind, word, names in (
        ("continuous query", "CQ", [one.name for one in definitions.queries()]),
        ("trigger", "TRIGGER", [one.name for one in definitions.triggers()]),
    ):
        for name in names:
            if f"{kind} {name}".lower() not in wanted:
                yield Unlisted(kind, name, f"DROP {word} {quoted(name)}", dialect="iotdb")
