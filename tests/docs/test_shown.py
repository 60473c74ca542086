"""What pages show without running it is right as far as can be told: commands, settings, files, imports."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import subprocess
import tomllib
from contextlib import ExitStack
from itertools import takewhile
from typing import TYPE_CHECKING

import click
import pytest
import yaml

from lakestream.cli import cli
from lakestream.cli.base.session import Session
from lakestream.language import parse_script
from lakestream.settings import Settings
from tests.docs.pages import ROOT, blocks, commands

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet

    from tests.docs.pages import Block

SHOWN = [
    (page, block)
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    for block in blocks(page)
]
READ = {"", "console", "json", "py", "python", "sh", "sql", "text", "toml", "yaml"}
"""The languages of blocks; those that are not run are read below."""

_COMMAND = re.compile(r"(\S+=\S*\s+)*lakestream |LAKESTREAM_\w+=")
_ENDS = {"|", "||", "&&", "&", ";", ">", ">>", "<"}
_NO_COMMAND = re.compile(r"[…\[]|^lakestream/", re.MULTILINE)
"""What grammars and pictures of folders have, and commands have not."""


def of(*languages: str) -> list[ParameterSet]:
    """Return the blocks of some languages, each named by its place."""
    found = [(page, block) for page, block in SHOWN if block.language in languages]
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT).with_suffix('')}:{block.line}")
        for page, block in found
    ]


def lines(block: Block) -> Iterator[list[str]]:
    """Yield the commands of a block, as words; what begins and ends them in a shell is left out."""
    if block.language == "console":
        texts: list[str] = [shlex.join(words) for words, _ in commands(block.text)]
    elif block.language == "sh" or not _NO_COMMAND.search(block.text):
        texts = re.sub(r"\\\n", " ", block.text).splitlines()
    else:
        texts = []
    for text in texts:
        yield from parted(text)


def parted(text: str) -> Iterator[list[str]]:
    """Yield the commands that stand in one line; what is assigned alone may be of a file."""
    if not _COMMAND.match(text):
        return
    if "lakestream " not in text:
        yield [text]
        return
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in _ENDS:
            yield words
            words = []
        else:
            words.append(word)


@pytest.mark.parametrize("block", of("console", "sh", ""))
def test_commands_and_their_options_are_known(block: Block) -> None:
    for words in lines(block):
        assigned = [*takewhile(lambda word: "=" in word, words)]
        for name, _, value in (word.removeprefix("LAKESTREAM_").partition("=") for word in assigned):
            if name.lower() in Settings.described():
                assert Settings(**{name.lower(): value}).sources()[name.lower()] == "argument"
            else:
                assert name in ("SPARK_REMOTE", "LAKE"), name
        if words[len(assigned) :][:1] == ["lakestream"]:
            read(words[len(assigned) + 1 :])


def read(words: list[str]) -> None:
    """Read the words of a command as the command line does, without doing it."""
    with ExitStack() as opened:
        command: click.Command = cli
        made = cli.make_context("lakestream", [*words], obj=Session())
        context = opened.enter_context(made.scope(cleanup=False))
        while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, words
            try:
                made = found.make_context(name, rest, parent=context)
            except click.BadParameter as error:
                assert "does not exist" in error.message, words  # noqa: PT017 - files are of the page
                return
            context, command = opened.enter_context(made.scope(cleanup=False)), found
        session = context.find_object(Session)
        assert session is not None
        assert not session.values.keys() - Settings.described().keys()
        if command.name == "sql" and context.params.get("statement"):
            parse_script(context.params["statement"], dialect=context.params.get("dialect") or "tdengine")


@pytest.mark.parametrize("block", of("sh"))
def test_shells_read_what_is_theirs(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True, capture_output=True)


@pytest.mark.parametrize("block", of("py", "python"))
def test_names_that_are_imported_are_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lakestream":
            assert [name.name for name in node.names if not is_defined(node.module or "", name.name)] == []


def is_defined(module: str, name: str) -> bool:
    """Return whether a module has a name; one of another program's is read, not loaded."""
    if ".integrations." not in module:
        return hasattr(importlib.import_module(module), name)
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    return re.search(rf"^(def|class) {name}\b", text, re.MULTILINE) is not None


@pytest.mark.parametrize("block", of("yaml", "toml", "json"))
def test_files_are_read(block: Block) -> None:
    if block.language == "yaml":
        assert yaml.safe_load(block.text)
    elif block.language == "toml":
        assert tomllib.loads(block.text)
    else:
        assert json.loads(block.text)


@pytest.mark.parametrize("page", sorted({page for page, _ in SHOWN}), ids=lambda page: page.stem)
def test_blocks_are_of_languages_that_are_run_or_read(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= READ
