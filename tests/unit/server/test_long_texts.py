"""Texts of very many characters: what reads them comes to an end, as it goes over each but a few times.

An expression that tries again from each character would take hours, in which the process does nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from pg_mimic import PgError
from pg_mimic import types as pg

from lakestream.errors import LakestreamError
from lakestream.language import parse_script
from lakestream.server.api.permits import is_about_queries
from lakestream.server.postgres.catalog.queries import parsed
from lakestream.server.postgres.copying import Form, copy_statement
from lakestream.server.postgres.forms import in_lakes_words
from lakestream.server.postgres.wording import parameters, split, with_plain_texts, worded
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.rewritten import rewritten

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 300_000
PAIRS = ("/* ", "e'", "$1", "1e", "0.", "1 ")
"""What is repeated of more than one character."""
READERS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "split": (split, ("/* ", "'", '"', "e'", "$1", "`", "$", "$$", "$a$", "$a$ $b$ ")),
    "plain texts": (with_plain_texts, ("$$", "$a", "$a$", " $a$ $b$", "$a$ ")),
    "parameters": (parameters, ("$", "$1", "/* ")),
    "copy": (
        lambda text: copy_statement(text + "x"),
        ("COPY t ", "COPY (", "COPY t (", "COPY t TO ", "COPY t TO STDOUT csv "),
    ),
    "copied in": (
        lambda text: copy_statement(text + "x"),
        ("COPY t FROM ", 'COPY "', "COPY t (a) FROM STDIN csv "),
    ),
    "lines": (
        lambda text: Form(False, False, "\t", "\\N").rows(1, text.encode()),
        ("\\", "\t", "\\0", "\n"),
    ),
    "number": (lambda text: worded("SELECT $1", [text + "!"], [pg.INT4]), ("0", "1e", ".", "0.")),
    "interval": (
        lambda text: in_lakes_words(f"SELECT interval '{text}!'", ""),
        (" ", "0", "1 ", "1 day ", "-1"),
    ),
    "system tables": (lambda text: parsed(f"SELECT interval '{text}' FROM pg_class"), (" ", "0", "1 ")),
    "queries": (lambda text: is_about_queries(text + "x", "tdengine"), (" ", "show ", "kill query ")),
    "compared": (lambda text: rewritten(f"SELECT 1 AS x WHERE 1 < '{text}!'"), ("0", " ", "0.", "1e")),
    "tdengine": (
        lambda text: parse_script(text + "x"),
        ("SHOW STREAMS ", "  ", "SELECT now() - interval ' ", "SELECT 0", "/* "),
    ),
    "ekuiper": (
        lambda text: parse_script(text + "x", dialect="ekuiper"),
        ("SHOW STREAMS ", "SELECT 1 FROM t WHERE interval '0"),
    ),
    "iotdb": (
        lambda text: parse_script(text + "x", dialect="iotdb"),
        ("SHOW STREAMS ", "SELECT a.E'", "SELECT 'e'", "SELECT 0"),
    ),
}


@pytest.mark.parametrize(
    ("read", "beginning"),
    [pytest.param(read, one, id=f"{name} {one!r}") for name, (read, all_) in READERS.items() for one in all_],
)
def test_what_reads_a_long_text_comes_to_an_end(read: Callable[[str], object], beginning: str) -> None:
    """Its last characters are repeated; it is read, or refused by name."""
    again = next((one for one in PAIRS if beginning.endswith(one)), beginning[-1])
    with suppress(LakestreamError, PgError, NotExactError):
        read(beginning + again * (MANY // len(again)))
