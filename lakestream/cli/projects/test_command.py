"""``lakestream test``: the cases of a project, run by pytest."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from lakestream.cli.base.failures import INTERRUPTED
from lakestream.cli.base.output import print_json
from lakestream.cli.base.session import Session, command
from lakestream.errors import PrerequisiteError, StatementError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLUGIN = "lakestream.testing.plugin"
_STATUSES = {0: 0, 2: INTERRUPTED}
_NO_TESTS = 5


@command("test")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "-k", "expression", metavar="WORDS", default="", help="Only cases with these words: 'mean and not late'."
)
@click.option(
    "--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write a report in JUnit's XML too."
)
@click.option(
    "--record", is_flag=True, help="Write the rows that are found into the files, as those expected."
)
@click.pass_obj
def test(session: Session, paths: tuple[Path, ...], expression: str, junit: Path | None, record: bool) -> int:
    """Run the tests of the project's streams: the cases of tests/*.yaml, or of PATHS.

    Each case has a lake of its own in a temporary folder. Leaves with status 1 when one does not hold.
    """
    asked = [str(path) for path in paths or (Path("tests"),) if path.exists()]
    if not asked:
        raise StatementError(
            "NO_TESTS", "there is no folder tests", hint="name files, or make tests/first.yaml"
        )
    options = ["-k", expression] if expression else []
    options += [f"--junit-xml={junit}"] if junit else []
    options += ["--lakestream-record"] if record else []
    options += [f"--lakestream-profile={session.profile}"] if session.profile else []
    results = _Results(shown=not session.json)
    status = _run([*options, *asked], results)
    if status == _NO_TESTS:
        raise StatementError("NO_TESTS", f"there is no such case in {', '.join(asked)}")
    if session.json:
        print_json(results.document())
    else:
        click.echo(f"{results.passed} passed" + (f", {results.failed} failed" if results.failed else ""))
    return _STATUSES.get(status, 1)


def _run(options: Sequence[str], results: _Results) -> int:
    """Run pytest with nothing of the user's: neither its settings, nor other plugins, nor Python's tests."""
    try:
        import pytest
    except ModuleNotFoundError:
        raise PrerequisiteError(
            "PYTEST_MISSING",
            "pytest is not installed, by which tests are run",
            hint="pip install 'lakestream[test]'",
        ) from None
    with TemporaryDirectory() as folder:
        settings = Path(folder, "pytest.ini")
        settings.write_text("[pytest]\n", encoding="utf-8")
        given = [f"-c{settings}", f"--rootdir={Path.cwd()}", "-opython_files=", f"-p{_PLUGIN}"]
        given += ["-pno:terminal", "-pno:cacheprovider", "--disable-plugin-autoload", "--noconftest"]
        return int(pytest.main([*given, "--continue-on-collection-errors", *options], plugins=[results]))


@dataclass
class _Results:
    """Keeps what became of each case, and shows it where it is to be shown."""

    shown: bool
    found: list[dict[str, Any]] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: Any) -> None:  # noqa: ANN401 - pytest's
        """Keep the result of a case."""
        if report.when == "call":
            file, line, name = report.location
            message = "" if report.passed else str(report.longrepr)
            self._add(file, (line or 0) + 1, name, report.outcome, report.duration, message)

    def pytest_collectreport(self, report: Any) -> None:  # noqa: ANN401 - pytest's
        """Keep what is wrong with a file."""
        if report.failed:
            self._add(report.nodeid, None, None, "failed", 0.0, str(report.longrepr))

    def _add(self, *values: Any) -> None:  # noqa: ANN401 - of the fields
        result = dict(zip(("file", "line", "test", "outcome", "seconds", "message"), values, strict=True))
        self.found.append(result)
        if self.shown:
            click.echo(": ".join(filter(None, [result["outcome"], result["file"], result["test"]])))
        if self.shown and result["message"]:
            click.echo(f"\n{result['message']}\n")

    @property
    def passed(self) -> int:
        """How many cases hold."""
        return sum(one["outcome"] == "passed" for one in self.found)

    @property
    def failed(self) -> int:
        """How many cases do not hold, and files cannot be read."""
        return len(self.found) - self.passed

    def document(self) -> dict[str, object]:
        """Return all results."""
        return {"passed": self.passed, "failed": self.failed, "tests": self.found}
