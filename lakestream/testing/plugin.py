"""What pytest needs for tests of streams: cases of a project's ``tests/*.yaml``, and the fixture ``lake``.

Installed with lakestream, so that ``pytest`` finds it; ``lakestream test`` runs it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakestream.lake import Lake
    from lakestream.testing.cases import Case
    from lakestream.testing.running import Found, Project

TESTS = "tests"
"""The folder of a project that holds its cases."""

_RECORDED = pytest.StashKey[dict["Path", list[tuple["Case", list["Found"]]]]]()
_PROJECTS = pytest.StashKey[dict["Path | None", "Project"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of tests of streams."""
    group = parser.getgroup("lakestream")
    group.addoption("--lakestream-profile", metavar="NAME", help="the profile of the project")
    group.addoption(
        "--lakestream-record", action="store_true", help="write the rows that are found as expected"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep what is recorded, and the projects that were read, for this session."""
    config.stash[_RECORDED] = {}
    config.stash[_PROJECTS] = {}


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file of cases: one that was named, or lies in the tests of a project."""
    if file_path.suffix not in {".yaml", ".yml"}:
        return None
    from lakestream.testing.running import project_of

    folder = project_of(file_path)
    named = str(file_path) in {str(parent.config.invocation_params.dir / arg) for arg in parent.config.args}
    if named or (folder is not None and file_path.resolve().is_relative_to(folder / TESTS)):
        return CaseFile.from_parent(parent, path=file_path)
    return None


def _project(config: pytest.Config, path: Path) -> Project:
    from lakestream.testing.running import Project, project_of

    folder, known = project_of(path), config.stash[_PROJECTS]
    if folder not in known:
        known[folder] = Project(folder, config.getoption("--lakestream-profile"))
    return known[folder]


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[CaseItem]:
        """Yield the cases of the file."""
        from lakestream.errors import LakestreamError
        from lakestream.testing.cases import read_cases

        try:
            cases = read_cases(self.path, self.name)
        except LakestreamError as error:
            raise self.CollectError(error.render()) from None
        for case in cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)


class CaseItem(pytest.Item):
    """A case."""

    def __init__(self, *, case: Case, **rest: Any) -> None:  # noqa: ANN401 - pytest's
        super().__init__(**rest)
        self.case = case

    def runtest(self) -> None:
        """Run the case."""
        from lakestream.testing.running import run_case

        record = bool(self.config.getoption("--lakestream-record"))
        found = run_case(self.case, _project(self.config, self.path), record=record)
        if record:
            self.config.stash[_RECORDED].setdefault(self.path, []).append((self.case, found))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ANN401
        """Show what differs, and where the step stands."""
        from lakestream.errors import LakestreamError
        from lakestream.testing.running import CaseFailed

        error = excinfo.value
        if isinstance(error, CaseFailed):
            return f"{self.path.name}, line {error.line}\n\n{error}"
        if isinstance(error, LakestreamError):
            return f"{self.path.name}, line {self.case.line}\n\n{error.render()}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where the case stands."""
        return self.path, self.case.line - 1, self.name


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was recorded."""
    from lakestream.testing.recording import write_found

    for path, found in session.config.stash[_RECORDED].items():
        write_found(path, found)


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> Iterator[Lake]:
    """Give a fresh lake with the tables and streams of the project that the test lies in, if in any.

    Its clock is a ManualClock that stands at the beginning of 2025: ``lake.clock.advance(timedelta(…))``
    moves it. It notifies nobody, and is gone after the test.
    """
    from lakestream.project.definitions import define
    from lakestream.testing.cases import START
    from lakestream.testing.running import define_in, fresh_lake

    project = _project(request.config, request.path)
    with fresh_lake(project, START) as made:
        define_in(made, define(project.statements({})))
        yield made
