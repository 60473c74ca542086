"""The magics of a notebook: ``%lake``, ``%%sql`` and ``%%stream``."""

from __future__ import annotations

import atexit
from contextlib import contextmanager
from typing import TYPE_CHECKING

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from lakestream.engine.base.result import Result
from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.language import DIALECTS, model, parse_statement
from lakestream.notebook.charts import chart
from lakestream.notebook.progress import CellProgress
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell

_LAKE = "./lake"


@magics_class
class LakeMagics(Magics):
    """Statements in cells, on one lake: that of ``%lake``, else of the setting ``lake``, else ``./lake``."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._lake: Lake | None = None

    @line_magic
    def lake(self, line: str) -> Lake:
        """Open a lake in the place of the one before, and return it: ``%lake [PATH]``.

        One that cannot be opened leaves that one.
        """
        with _told():
            if line.strip():
                opened = Lake(line.strip())
                self.close()
                self._lake = opened
            return self._opened()

    @magic_arguments()
    @argument("name", nargs="?", help="a variable that the result is kept in")
    @argument("--dialect", choices=DIALECTS, default="tdengine", help="what the statements are written in")
    @argument("--chart", action="store_true", help="a chart of the rows below them")
    @cell_magic
    def sql(self, line: str, cell: str) -> Result | None:
        """Run statements and return the result of the last one, kept as NAME too: ``%%sql [NAME]``."""
        given = parse_argstring(self.sql, line)
        result = self._run(cell, given.dialect)
        if given.name and self.shell is not None:
            self.shell.user_ns[given.name] = result
        if given.chart:
            display(result)
            display(chart(result.to_arrow()))
            return None
        return result

    @magic_arguments()
    @argument("--rows", type=int, default=20, help="so many of the newest rows")
    @argument("--no-chart", action="store_true", help="the rows alone")
    @cell_magic
    def stream(self, line: str, cell: str) -> None:
        """Create a stream, run it, and show the newest rows of its output: ``%%stream``."""
        given = parse_argstring(self.stream, line)
        statement = _read(cell)
        said = self._run(cell, "tdengine").message
        lake = self._opened()
        name = str(statement.definition.name.within(lake.database))
        with CellProgress(said) as progress, _told():
            run = lake.run(on_tick=progress.on_tick, streams=[name])
        if run.failed:
            raise UsageError(f"{name}: {run.failed[-1].error}")
        with _told():
            rows = lake.newest_results(name, given.rows)
        display(Result(arrow=rows))
        if not given.no_chart and rows.num_rows:
            display(chart(rows))

    def _run(self, cell: str, dialect: str) -> Result:
        with _told():
            return self._opened().sql(cell, dialect)

    def _opened(self) -> Lake:
        """Return the lake; it is opened, and made, on first need."""
        if self._lake is None:
            self._lake = Lake(Settings().lake or _LAKE)
        return self._lake

    def close(self) -> None:
        """Close the lake, which saves the state of its streams."""
        if self._lake is not None:
            self._lake.close()
            self._lake = None


@contextmanager
def _told() -> Iterator[None]:
    """Have what is wrong said with its place, without a traceback."""
    try:
        yield
    except LakestreamError as error:
        raise UsageError(error.render()) from None


def _read(cell: str) -> model.CreateStream:
    """Return the statement of a cell. Raises UsageError for another one than CREATE STREAM."""
    with _told():
        statement = parse_statement(cell)
    if not isinstance(statement, model.CreateStream):
        raise UsageError("%%stream takes one CREATE STREAM; %%sql takes all statements")
    return statement


def load(shell: InteractiveShell) -> None:
    """Give a shell the magics; their lake is closed when the process ends."""
    magics = LakeMagics(shell)
    shell.register_magics(magics)
    atexit.register(magics.close)
