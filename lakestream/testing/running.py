"""A case run: a fresh lake, of the project's definitions those that the case needs, and its steps."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lakestream.clock import ManualClock
from lakestream.errors import LakestreamError, StatementError
from lakestream.lake import Lake, workspace_of
from lakestream.language import model
from lakestream.language.iotdb.paths import ROOT
from lakestream.project.definitions import define
from lakestream.project.files import read_project, read_statements
from lakestream.settings import PROJECT_FILE, ProjectFile, Settings, profile_name, project_file
from lakestream.statements.workspace import DEFAULT_DATABASE
from lakestream.storage.delta import read_arrow
from lakestream.testing.comparing import difference, different_events, plain_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lakestream.project.definitions import Definition
    from lakestream.project.files import Written
    from lakestream.testing.cases import Case, Expected


class CaseFailed(AssertionError):  # noqa: N818 - a verdict
    """A case does not hold; ``line`` is that of the step, the message what differs."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Found:
    """The rows that were found in the place of those expected."""

    expected: Expected
    rows: list[dict[str, Any]]


@dataclass
class Project:
    """The project whose streams are tested, None of a ``folder`` for none; its files are read once."""

    folder: Path | None
    profile: str | None = None
    _read: dict[str, list[Written]] = field(default_factory=dict)

    def statements(self, parameters: Mapping[str, Any]) -> list[Written]:
        """Return the statements of the files. Raises ProjectError."""
        if self.folder is None:
            return []
        key = json.dumps(parameters, sort_keys=True, default=str)
        if key not in self._read:
            self._read[key] = read_project(self.folder, self._profile, parameters)
        return self._read[key]

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a case: the project's, and those that are given."""
        return {**self._file.parameters_of(self._profile), **given}

    def settings(self, timezone: str | None) -> Settings:
        """Return the project's settings for a lake of a test, of which no disk is waited for."""
        file, profile = self._file, self._profile
        own = file.profiles[profile].settings if profile in file.profiles else {}
        named = {} if profile is None or profile in file.profiles else {"profile": profile}
        values = {name: value for name, value in {**file.settings, **own}.items() if name not in _ELSEWHERE}
        zone = {} if timezone is None else {"timezone": timezone}
        return Settings(**{**values, **named, **zone, "durability": "process"})

    @property
    def _file(self) -> ProjectFile:
        return project_file(self.folder) if self.folder else ProjectFile()

    @property
    def _profile(self) -> str | None:
        return profile_name({"profile": self.profile}, self.folder or Path())


_ELSEWHERE = {"lake", "profile"}
"""Settings that are none of a test's lake."""


def project_of(path: Path) -> Path | None:
    """Return the project that a file lies in, None for none."""
    return next((one for one in path.resolve().parents if (one / PROJECT_FILE).is_file()), None)


@contextmanager
def fresh_lake(project: Project, clock: datetime, timezone: str | None = None) -> Iterator[Lake]:
    """Give a lake in a folder of its own, by a clock that is moved by hand; it notifies nobody."""
    with (
        TemporaryDirectory() as folder,
        Lake(
            folder, clock=ManualClock(clock), settings=project.settings(timezone), confirm=lambda _: False
        ) as lake,
    ):
        workspace_of(lake).notifier.only = frozenset()
        yield lake


def define_in(lake: Lake, definitions: Sequence[Definition]) -> None:
    """Make what is defined, in a lake that has none of it. Raises the first error, with its place."""
    for one in definitions:
        lake.database = one.written.database
        try:
            lake.sql(one.written.text, dialect=one.written.dialect)
        except LakestreamError as error:
            raise one.written.located(error) from None
    lake.database = DEFAULT_DATABASE


def run_case(case: Case, project: Project, *, record: bool = False) -> list[Found]:
    """Run a case in a lake of its own; raises CaseFailed where it does not hold, LakestreamError.

    With ``record`` nothing is expected: what is found is returned.
    """
    with fresh_lake(project, case.clock, case.timezone) as lake:
        first, last = _in_two(_needed(case, project))
        define_in(lake, first)
        for table, rows in case.tables.items():
            lake.insert(table, rows)
        define_in(lake, last)
        return _Run(lake, record).steps(case)


def _needed(case: Case, project: Project) -> list[Definition]:
    """Return what a case needs of the project, in order: what it says itself takes the place of files'."""
    own = read_statements(case.sql, case.name, case.dialect, project.parameters(case.parameters))
    made = {name for one in define(own) for name in one.makes}
    others = [one for one in project.statements(case.parameters) if not define([one])[0].makes & made]
    needed = _closure(define([*others, *own]), _asked_for(case), own)
    for one in needed:
        _refuse_outside(one)
    return needed


def _closure(
    definitions: list[Definition], wanted: set[str] | None, own: Sequence[Written]
) -> list[Definition]:
    """Return the definitions of what is wanted, and of all that these read; None: everything."""
    if wanted is None:
        return definitions
    needed: list[Definition] = []
    for one in reversed(definitions):
        if one.makes & wanted or one.written in own:
            needed.insert(0, one)
            wanted |= one.reads
    return needed


def _asked_for(case: Case) -> set[str] | None:
    """Return the names of the tables of a case; None where only a lake with everything tells."""
    inserted = [name for step in case.steps if step.kind == "insert" for name in step.said]
    names = {*case.tables, *inserted, *(one.table for one in case.expects)}
    by_name = all(one.sql is None for one in case.expects) and case.expects
    if not by_name or any(step.kind in {"sql", "events"} for step in case.steps):
        return None
    if any(name.startswith(f"{ROOT}.") for name in names):
        return None
    return {(name if "." in name else f"main.{name}").lower() for name in names}


def _refuse_outside(definition: Definition) -> None:
    statement = definition.written.statement
    if isinstance(statement, model.CreateTable) and (statement.location or statement.catalog_name):
        raise StatementError(
            "TABLE_OUTSIDE",
            f"{definition.name} lies outside of the lake, where no test looks",
            hint="say in the case's sql what columns it has: CREATE TABLE … (…)",
        )


def _in_two(definitions: Sequence[Definition]) -> tuple[list[Definition], list[Definition]]:
    """Return the definitions of tables, and those of what begins with the rows that are there."""
    begins = {"stream", "continuous query", "trigger"}
    first = [one for one in definitions if one.kind not in begins]
    return first, [one for one in definitions if one.kind in begins]


class _Run:
    """Runs the steps of a case."""

    def __init__(self, lake: Lake, record: bool) -> None:
        self._lake = lake
        self._record = record
        self._found: list[Found] = []
        self._last_event = "0-0"

    def steps(self, case: Case) -> list[Found]:
        """Run all steps and return what was found."""
        for step in case.steps:
            try:
                getattr(self, f"_{step.kind}")(step.said)
            except (AssertionError, LakestreamError) as error:
                message = error.render() if isinstance(error, LakestreamError) else str(error)
                raise CaseFailed(message, step.line) from None
        if not case.expects and self._record:
            self._all_outputs()
        return self._found

    def _insert(self, said: dict[str, list[dict[str, Any]]]) -> None:
        for table, rows in said.items():
            self._lake.insert(table, rows)

    def _sql(self, said: str) -> None:
        self._lake.sql(said)

    def _clock(self, said: timedelta | datetime) -> None:
        clock = self._lake.clock
        assert isinstance(clock, ManualClock)
        by = said if isinstance(said, timedelta) else said - clock.now()
        _hold("" if by >= timedelta() else f"the clock stands at {clock.now().isoformat(sep=' ')} already")
        clock.advance(by)
        self._run()

    def _run(self) -> None:
        failed = [f"{one.stream} failed: {one.error}" for one in self._lake.run().failed]
        _hold("\n".join(failed))

    def _expect(self, said: list[Expected]) -> None:
        self._run()
        different = []
        for one in said:
            columns, rows = self._rows(one)
            if self._record:
                self._found.append(Found(one, self._as_expected(one, columns, rows)))
                continue
            found = difference(columns, one.rows, rows, self._lake.timezone, in_order=one.sql is not None)
            if found is not None:
                different.append(f"{one.table}: {len(one.rows)} expected, {len(rows)} found\n{found}")
        _hold("\n\n".join(different))

    def _rows(self, one: Expected) -> tuple[Sequence[str], list[dict[str, Any]]]:
        """Return the columns and rows of a query, or of a table without its hidden columns."""
        if one.sql is not None:
            result = self._lake.sql(one.sql)
            return result.columns, [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]
        at = workspace_of(self._lake)
        info = at.named(one.table)
        columns = [column.name for column in info.columns if column.name not in info.hidden]
        found = read_arrow(at.catalog.handles.latest(info.path), None)
        return columns, found.select(columns).to_pylist()

    def _as_expected(
        self, one: Expected, columns: Sequence[str], rows: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return rows with those columns that the case has, as far as there are such, else all, for YAML."""
        known = [name for name in dict.fromkeys(name for row in one.rows for name in row) if name in columns]
        zone = self._lake.timezone
        made = [{name: plain_value(row.get(name), zone) for name in known or row} for row in rows]
        return (
            made
            if one.sql is not None
            else sorted(made, key=lambda row: [str(value) for value in row.values()])
        )

    def _all_outputs(self) -> None:
        from lakestream.testing.cases import Expected

        self._run()
        for stream in self._lake.streams():
            if stream.output is not None:
                one = Expected(stream.output.removeprefix("main."), (), (0, 0), 0)
                self._found.append(Found(one, self._as_expected(one, *self._rows(one))))

    def _events(self, said: list[dict[str, Any]]) -> None:
        self._run()
        events = self._lake.events(None, self._last_event, 10_000)
        self._last_event = events[-1].id if events else self._last_event
        if not self._record:
            found = [json.loads(one.event) for one in events]
            different = different_events(said, found, self._lake.timezone)
            if different is not None:
                _hold(f"events: {len(said)} expected, {len(found)} found\n{different}")


def _hold(failure: str) -> None:
    """Let a step fail of what it says, if anything: pytest would add to what an assertion says."""
    if failure:
        raise AssertionError(failure)
