"""The files of a project compared with a lake; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakestream.errors import LakestreamError, Place, StatementError
from lakestream.lake import workspace_of
from lakestream.language import model
from lakestream.language.expressions.differences import differences, laid_out
from lakestream.language.model import CatalogName
from lakestream.language.quoting import quoted, quoted_path
from lakestream.project.comparing import changes_of_table, subtable_changes
from lakestream.project.definitions import define
from lakestream.project.environments import check_environment, database_in, in_environment
from lakestream.project.plan import Change, Plan, Step
from lakestream.project.unlisted import unlisted, unlisted_of_tree
from lakestream.statements.dispatch import Statements
from lakestream.statements.streams import NOT_INCREMENTAL, refuse_replacing
from lakestream.storage.records.definitions import Definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakestream.lake import Lake
    from lakestream.language.iotdb import values
    from lakestream.project.definitions import Definition
    from lakestream.project.files import Written
    from lakestream.statements.workspace import Workspace
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import StreamRecord

_OF_TREE = {"tree database", "timeseries", "continuous query", "trigger"}


def make_plan(
    statements: Sequence[Written], lake: Lake, environment: str | None = None, *, prune: bool = False
) -> Plan:
    """Compare the statements of a project with a lake.

    Spark is started only where a stream that is new or changed cannot be checked without it. Raises
    ProjectError for definitions that do not go together, StatementError BAD_NAME for an environment.
    """
    if environment is not None:
        check_environment(environment)
        statements = in_environment(statements, environment)
    planner = _Planner(workspace_of(lake), environment, prune)
    return Plan(lake.root, environment, tuple(planner.run(define(statements))))


@dataclass
class _Planner:
    """Compares definitions with one lake."""

    at: Workspace
    environment: str | None
    prune: bool
    _changing: set[str] = field(default_factory=set)
    """What is not in the lake as the files have it: what reads it cannot be checked yet."""

    def run(self, definitions: Sequence[Definition]) -> Iterator[Change]:
        """Yield what becomes of everything that is defined, then of what is in the lake alone."""
        yield from self._databases(definitions)
        for definition in definitions:
            change = self._change(definition)
            if change.is_change:
                self._changing |= definition.makes
            yield change
        yield from self._unlisted(definitions)

    def _change(self, definition: Definition) -> Change:
        try:
            change = self._of[definition.kind](definition, definition.written.statement)
        except LakestreamError as error:
            change = Change(definition.kind, definition.name, "refused", error=error)
        if change.error is not None:
            definition.written.located(change.error)
        return replace(change, definition=definition)

    @property
    def _of(self) -> dict[str, Callable[[Definition, Any], Change]]:
        return {
            "database": self._database,
            "table": self._table,
            "subtables": self._subtables,
            "stream": self._stream,
            "tree database": self._tree_database,
            "timeseries": self._timeseries,
            "continuous query": self._query,
            "trigger": self._trigger,
        }

    # --- databases and tables ---

    def _databases(self, definitions: Sequence[Definition]) -> Iterator[Change]:
        """Yield the databases of an environment: those that its streams make things in."""
        if self.environment is None:
            return
        said = [one.written.statement for one in definitions]
        streams = [one.definition for one in said if isinstance(one, model.CreateStream)]
        names = [name for one in streams for name in (one.name, *([one.output] if one.stores else []))]
        for name in dict.fromkeys(name.database or "" for name in names):
            is_there = name in self.at.catalog.databases
            step = Step(f"CREATE DATABASE IF NOT EXISTS {quoted(name)}", "main")
            yield Change("database", name, "same") if is_there else Change("database", name, "new", (step,))

    def _database(self, definition: Definition, statement: model.CreateDatabase) -> Change:
        return _same(definition) if statement.name in self.at.catalog.databases else _new(definition)

    def _table(self, definition: Definition, statement: model.CreateTable) -> Change:
        name = statement.name.within(definition.written.database)
        database = name.database or ""
        is_there = database in self.at.catalog.databases
        info = self.at.catalog.find_table(database, name.name) if is_there else None
        if info is not None and info.writer is not None:
            raise StatementError("TABLE_DIFFERS", f"{name} is there, as the output of a stream")
        if statement.location is not None or statement.catalog_name is not None:
            return self._attached(definition, statement, info)
        if info is None:
            return _new(definition)
        changes = changes_of_table(statement, info)
        if not changes:
            return _same(definition)
        note = f"{', '.join(changes)}"
        if self.environment is not None:
            return _left(definition, f"is shared by all environments: {note}")
        alter = f"ALTER TABLE {quoted_path(info.database, info.name)}"
        steps = tuple(Step(f"{alter} {one}", info.database) for one in changes)
        return Change(definition.kind, definition.name, "changed", steps, note=note)

    def _attached(
        self, definition: Definition, statement: model.CreateTable, info: TableInfo | None
    ) -> Change:
        if statement.catalog_name is not None and info is not None and info.catalog_name is not None:
            parts = statement.catalog_name.parts
            if CatalogName.of(info.catalog_name).parts[-len(parts) :] == parts:
                return _same(definition)  # without the session whose catalogs are meant
        self.at.database = definition.written.database
        found = Statements(self.at).tables.would_name(replace(statement, if_not_exists=True))
        if info is not None:
            return _same(definition)
        has_feed = self.at.catalog.handles.latest(found.path).has_change_feed
        return _new(definition, "" if has_feed else f"switches the change data feed of {found.path} on")

    def _subtables(self, definition: Definition, statement: model.CreateSubtables) -> Change:
        missing, changed = subtable_changes(statement, self.at, definition.written.database)
        if not missing and not changed:
            return _same(definition)
        if changed and self.environment is not None:
            return _left(definition, f"is shared by all environments: {', '.join(changed)}")
        making = Step.of(definition.written.beginning("CREATE TABLE IF NOT EXISTS"))
        steps = [making] * bool(missing) + [Step(text, definition.written.database) for text in changed]
        is_new = len(missing) == len(statement.subtables)
        note = "" if is_new else "; ".join([*(f"makes {name}" for name in missing), *changed])
        return Change(
            definition.kind, definition.name, "new" if is_new else "changed", tuple(steps), note=note
        )

    # --- streams ---

    def _stream(self, definition: Definition, statement: model.CreateStream) -> Change:
        from lakestream.engine.creation.compile import definition_of

        said = statement.definition.within(definition.written.database)
        record = self.at.registry.find(said.name.database or "", said.name.name)
        if statement.otherwise is not None:
            said = self._by_windows_or_not(definition, statement)
        if record is None:
            return self._new_stream(definition, said)
        clauses = tuple(differences(definition_of(record), said))
        if not clauses:
            return _same(definition)
        if said.options.view is not None:
            self._try(definition, said, None)
            step = Step.of(definition.written.beginning("CREATE OR REPLACE MATERIALIZED VIEW"))
            steps, notes = self._over(record.output)
            note = "; ".join(["made anew", *notes])
            return Change(
                "stream", definition.name, "changed", (step, *steps), clauses, note=note, recomputed=True
            )
        try:
            refuse_replacing(definition_of(record), said)
            return replace(self._changed_stream(definition, said, record), clauses=clauses)
        except LakestreamError as error:
            return Change("stream", definition.name, "refused", clauses=clauses, error=error)

    def _by_windows_or_not(
        self, definition: Definition, statement: model.CreateStream
    ) -> model.StreamDefinition:
        """Return the definition of a view that goes by windows, else the one without any."""
        database, otherwise = definition.written.database, statement.otherwise
        assert otherwise is not None  # by _stream
        try:
            self._try(definition, statement.definition.within(database), None)
        except StatementError as error:
            if error.code not in NOT_INCREMENTAL:
                raise
            return otherwise.within(database)
        return statement.definition.within(database)

    def _new_stream(self, definition: Definition, said: model.StreamDefinition) -> Change:
        self._try(definition, said, None)
        what = "STREAM" if said.options.view is None else "MATERIALIZED VIEW"
        step = Step.of(definition.written.beginning(f"CREATE {what}"))
        rows = self._rows(said, said.options.history_start) if said.options.wants_history else 0
        begins = f"reads {rows:,} rows of history" if said.options.wants_history else "begins with what comes"
        return Change("stream", definition.name, "new", (step,), rows=rows, note=begins)

    def _changed_stream(
        self, definition: Definition, said: model.StreamDefinition, record: StreamRecord
    ) -> Change:
        keeps = self._try(definition, said, record)
        recomputed = not said.options.late.by_arrival
        rows = self._rows(said, None) if recomputed else 0
        step = Step.of(definition.written.beginning("CREATE OR REPLACE STREAM"))
        output = {True: "output kept", False: "output made anew: its columns are others", None: ""}[keeps]
        what = f"recomputed, reads {rows:,} rows" if recomputed else "not recomputed, goes on from now"
        steps, notes = ([], []) if keeps else self._over(record.output)
        note = "; ".join(filter(None, [what, output, *notes]))
        return Change(
            *("stream", definition.name, "changed", (step, *steps)),
            rows=rows,
            recomputed=recomputed,
            keeps_output=keeps,
            note=note,
        )

    def _over(self, output: str) -> tuple[list[Step], list[str]]:
        """Return what begins anew with an output that is made anew, by step, and in words.

        These are the streams that read it, and those that read theirs: of views the outputs may be, too.
        """
        streams, outputs = self.at.registry.streams(), {output}
        found: list[StreamRecord] = []
        while more := [one for one in streams if one not in found and outputs & {*one.sources}]:
            found += more
            outputs |= {one.output for one in more}
        names = [(quoted_path(one.database, one.name), f"{one.database}.{one.name}") for one in found]
        steps = [Step(f"RECALCULATE STREAM {path} RESYNC", "main") for path, _ in names]
        return steps, [f"{name} is recomputed too" for _, name in names]

    def _try(
        self, definition: Definition, said: model.StreamDefinition, record: StreamRecord | None
    ) -> bool | None:
        """Raise what making the stream would, once all that it reads is there; see ``keeps_output``."""
        from lakestream.engine.creation.create import try_stream

        if definition.reads & self._changing or (said.name.database or "") not in self.at.catalog.databases:
            return None
        try:
            return try_stream(
                self.at.small,
                self.at.catalog,
                self.at.registry,
                said,
                self.at.timezone,
                record=record,
                exact_by_default=self.at.settings.exact,
            )
        except LakestreamError as error:
            raise error.at(Place(said.source.line, said.source.column, len(said.source.name))) from None

    def _rows(self, said: model.StreamDefinition, start: str | None) -> int:
        """Return about how many rows its source has, from a time on as it is written, by its statistics."""
        from lakestream.engine.base.instants import parse_instant
        from lakestream.engine.base.names import Names
        from lakestream.storage.tables.datafiles import data_files, rows_of

        try:
            info, _ = Names(self.at.catalog, "").find(said.source.database or "", said.source.name)
        except LakestreamError:
            return 0  # it is made by the plan
        lower = None if start is None else parse_instant(start, said.options.zone or self.at.timezone)
        table = self.at.catalog.handles.latest(info.path)
        return rows_of(data_files(table, table.version, info.time_column, lower, None))

    # --- the tree ---

    def _tree_database(self, definition: Definition, statement: values.CreateTreeDatabase) -> Change:
        tree, wanted = self.at.tree.tree, statement.mapping
        if statement.path not in tree.databases():
            tree.check_free(statement.path)
            return _new(definition)
        known = tree.mappings().get(statement.path)
        current = definition.written.database
        if (known and _mapping(known, current)) != (wanted and _mapping(wanted, current)):
            raise StatementError(
                "TABLE_DIFFERS", f"{statement.path} is there, as a database of another table"
            )
        return _same(definition)

    def _timeseries(self, definition: Definition, statement: values.CreateTimeseries) -> Change:
        known = [(path, kind, self.at.tree.tree.find(path)) for path, kind in statement.series]
        for path, kind, one in known:
            if one is not None and one.type != kind:
                raise StatementError("TABLE_DIFFERS", f"the series {path} is there, of type {one.type}")
        there = [one for _, _, one in known if one is not None]
        if there and len(there) < len(known):
            raise StatementError(
                "TABLE_DIFFERS",
                f"{there[0].path} is there, and others of the statement are not",
                hint="a statement of its own for those that are new",
            )
        return _same(definition) if there else _new(definition)

    def _query(self, definition: Definition, statement: values.CreateContinuousQuery) -> Change:
        known = Definitions(self.at.layout).query(statement.name)
        return self._of_tree(definition, statement.text, known.sql if known else None, "CQ")

    def _trigger(self, definition: Definition, statement: values.CreateTrigger) -> Change:
        known = {one.name: one.sql for one in Definitions(self.at.layout).triggers()}
        return self._of_tree(definition, statement.text, known.get(statement.name), "TRIGGER")

    def _of_tree(self, definition: Definition, text: str, known: str | None, word: str) -> Change:
        if self.environment is not None:
            return _left(definition, "environments have none of their own")
        if known is None:
            return _new(definition)
        clauses = (("statement", laid_out(known), laid_out(text)),)
        if clauses[0][1] == clauses[0][2]:
            return _same(definition)
        drop = Step(f"DROP {word} {quoted(definition.name)}", "main", "iotdb")
        return Change(
            *(definition.kind, definition.name, "changed", (drop, Step.of(definition.written)), clauses),
            undo=Step(known, "main", "iotdb"),
        )

    # --- what is in the lake alone ---

    def _unlisted(self, definitions: Sequence[Definition]) -> Iterator[Change]:
        """Yield what no file defines, of the databases that files make things in; with ``prune`` it goes."""
        wanted = {name for one in definitions for name in one.makes}
        made = {name for one in definitions if one.kind not in _OF_TREE for name in one.makes if "." in name}
        databases = {name.removeprefix("stream ").partition(".")[0] for name in made}
        if self.environment is not None:
            databases = {name for name in databases if name.endswith(database_in(self.environment, ""))}
        found = [*unlisted(self.at, databases, wanted)]
        if self.environment is None and any(one.kind in _OF_TREE for one in definitions):
            found += unlisted_of_tree(self.at, wanted)
        for one in found:
            if one.kept_by is not None:
                yield Change(one.kind, one.name, "unlisted", note=f"{one.kept_by} reads it")
            elif self.prune:
                steps = (Step(one.drop, "main", one.dialect),)
                yield Change(one.kind, one.name, "dropped", steps, note=one.loss)
            else:
                yield Change(one.kind, one.name, "unlisted", note="--prune drops it")


def _new(definition: Definition, note: str = "") -> Change:
    return Change(definition.kind, definition.name, "new", (Step.of(definition.written),), note=note)


def _same(definition: Definition) -> Change:
    return Change(definition.kind, definition.name, "same")


def _left(definition: Definition, note: str) -> Change:
    return Change(definition.kind, definition.name, "left", note=note)


def _mapping(mapping: values.TableMapping, current: str) -> tuple[str, str, str]:
    return str(mapping.table.within(current)), laid_out(mapping.device.sql), laid_out(mapping.time.sql)
