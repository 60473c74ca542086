"""The pages of the documentation as examples: how a fenced block is read and run.

A page that holds a ``sql`` or ``python`` block is run from top to bottom, in a fresh folder and lake:

* ``sql``: the statements are run, then all streams until nothing is left to do;
* ``python``: the code is run; ``lake`` is the page's lake, names go on from block to block;
* ``console``: each ``$ lakestream …`` is run in this process, with the output below it (stdout only); of
  other commands there are ``export NAME=value``, ``cd DIR``, ``rm FILE …`` and ``pytest …``;
* ``<!-- exits: 2 -->`` before a ``console`` block: its last command leaves with that status, and its output
  is all that it prints;
* ``<!-- file: streams/a.sql -->`` before a block: it is written to that file of the working directory;
* ``text`` after a ``sql`` or ``python`` block: what that prints;
* ``<!-- refused: CODE -->`` before a block: its last statement is refused with that code;
* ``<!-- lake: timezone=Europe/Helsinki -->`` before a block: a new lake with that setting, from there on.

Blocks without a language, or with another one, are not run.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.cli.base.output import print_table
from lakestream.errors import LakestreamError
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
RUN = {"sql", "python", "console"}
SMALL = frozenset(
    {
        ROOT / "docs" / "stream-tests.md",
        ROOT / "docs" / "production.md",
        *(ROOT / "docs" / "coming-from").glob("*.md"),
    }
)
"""The pages that need no Spark: all that they run goes the small path."""

_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>\w+): (?P<value>\S+) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text, first line, and the note before it (name and value)."""

    language: str
    text: str
    line: int
    note: tuple[str, str] | None = None

    @property
    def refused(self) -> str | None:
        """The code with which the block is to be refused."""
        return self.noted("refused")

    def noted(self, name: str) -> str | None:
        """Return what a note of that name before the block says."""
        return self.note[1] if self.note and self.note[0] == name else None


@dataclass(frozen=True)
class Example:
    """A block that is run, and what it is to print (None: anything)."""

    block: Block
    expected: str | None


def pages() -> list[Path]:
    """Return the pages that hold examples."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in every if {"sql", "python"} & {block.language for block in blocks(page)}]


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        note = (match["note"], match["value"]) if match["note"] else None
        line = text.count("\n", 0, match.start("text")) + 1
        found.append(Block(match["language"], match["text"], line, note))
    return found


def examples(page: Path) -> Iterator[Example]:
    """Yield the blocks that are run; a ``text`` block belongs to the one before it."""
    listed = blocks(page)
    for block, following in zip(listed, [*listed[1:], None], strict=True):
        if block.language in RUN or block.noted("file"):
            has_output = following is not None and following.language == "text"
            yield Example(block, following.text if following is not None and has_output else None)


class Runner:
    """Runs the examples of one page in a folder, which is the working directory meanwhile."""

    def __init__(self, spark: SparkSession | None, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._lake: Lake | None = None

    def run(self, block: Block) -> str:
        """Run a block and return what it printed, with blanks at line ends cut."""
        if file := block.noted("file"):
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(block.text, encoding="utf-8")
            return ""
        if block.note and block.note[0] == "lake":
            self.close()
            name, value = block.note[1].split("=")
            self._open(**{name: value})
        printed = io.StringIO()
        with redirect_stdout(printed):
            getattr(self, f"_{block.language}")(block)
        return tidy(printed.getvalue())

    def close(self) -> None:
        """Close the page's lake."""
        if self._lake is not None:
            self._lake.close()
            self._lake = None

    def _open(self, **settings: str) -> Lake:
        root = self._folder / f"page-lake-{len(list(self._folder.glob('page-lake-*')))}"
        configured = Settings(master="local[2]", **settings)
        self._lake = Lake(root, spark=self._spark, settings=configured, confirm=lambda _: True)
        self._names["lake"] = self._lake
        return self._lake

    def _sql(self, block: Block) -> None:
        lake = self._lake or self._open()
        if block.refused:
            self._refused(lake, block)
            return
        result = lake.sql(block.text)
        if result.columns:
            print_table(result.columns, result.fetchall())
        else:
            result.show()
        failed = lake.run().failed
        assert not failed, failed

    def _refused(self, lake: Lake, block: Block) -> None:
        with pytest.raises(LakestreamError) as raised:
            lake.sql(block.text)
        assert raised.value.code == block.refused, raised.value.render()

    def _python(self, block: Block) -> None:
        if "Lake(" not in block.text and self._lake is None and "lake" not in self._names:
            self._open()
        exec(compile(block.text, f"line {block.line}", "exec"), self._names)

    def _console(self, block: Block) -> None:
        from click.testing import CliRunner

        from lakestream.cli import cli

        listed = [*commands(block.text)]
        for number, (command, expected) in enumerate(listed, 1):
            if command[0] in _OTHERS:
                _OTHERS[command[0]](command[1:])
                continue
            assert command[0] == "lakestream", command
            outcome = CliRunner().invoke(cli, command[1:])
            status = block.noted("exits") if number == len(listed) else None
            assert outcome.exit_code == int(status or 0), outcome.output
            printed = outcome.output if status else outcome.stdout
            if expected:
                assert tidy(printed) == tidy(expected), printed


def _export(words: list[str]) -> None:
    name, _, value = words[0].partition("=")
    os.environ[name] = value


def _remove(words: list[str]) -> None:
    for word in words:
        Path(word).unlink()


def _pytest(words: list[str]) -> None:
    """Run pytest with the plugin that an installed package brings."""
    given = ["--disable-plugin-autoload", "-p", "lakestream.testing.plugin", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, "-m", "pytest", *given, *words], check=True, capture_output=True)


_OTHERS: dict[str, Callable[[list[str]], None]] = {
    "export": _export,
    "cd": lambda words: os.chdir(words[0]),
    "rm": _remove,
    "pytest": _pytest,
}
"""The commands of other programs that pages show."""


def commands(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the commands of a console block, as words, each with the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        for count in range(1, len(lines) + 1):
            try:
                words = shlex.split("\n".join(lines[:count]).replace("\\\n", ""), comments=True)
            except ValueError:  # a quote is still open: the command goes on in the next line
                continue
            if not lines[count - 1].endswith("\\"):
                yield words, "\n".join(lines[count:])
                break


def tidy(text: str) -> str:
    """Cut blanks at line ends and empty lines at both ends."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
