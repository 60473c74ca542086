"""Values as tables and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from lakestream.cli.base import output
from lakestream.cli.base.output import console, print_json, print_table, unique_names
from lakestream.engine.base.plain import cell, plain


@dataclass
class Point:
    x: float
    tags: tuple[str, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (9_223_372_036_854_775_807, 9_223_372_036_854_775_807),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Decimal("1.10"), "1.10"),
        (datetime(2025, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2025-01-02T03:04:05.000006+00:00"),
        (date(2025, 1, 2), "2025-01-02"),
        (time(1, 2), "01:02:00"),
        (timedelta(seconds=90), "00:01:30"),
        (b"\x00\xff", "00ff"),
        ({1: Decimal(2)}, {"1": "2"}),
        ([(1, None)], [[1, None]]),
        (Point(float("nan"), ("a",)), {"x": "NaN", "tags": ["a"]}),
        (Path("/a"), "/a"),
    ],
)
def test_plain(value: object, expected: object) -> None:
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        ("", ""),
        (False, "false"),
        (12_345, "12345"),
        (0.1, "0.1"),
        (datetime(2025, 1, 2, 3, 4, tzinfo=UTC), "2025-01-02 03:04:00+00:00"),
        ("two\nlines\tand \x1b[31mred", "two\\nlines\\tand \\x1b[31mred"),
        ([1, "ä"], '[1, "ä"]'),
    ],
)
def test_cell(value: object, expected: str) -> None:
    assert cell(value) == expected


def test_a_table_aligns_numbers_right_and_reads_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "n"), [("[red]x[/red]", 1), ("城市 :smile:", 1000), (None, None)])
    assert capsys.readouterr().out.splitlines() == [
        "name              n",
        "───────────────────",
        "[red]x[/red]      1",
        "城市 :smile:   1000",
        "NULL           NULL",
    ]


@pytest.mark.parametrize(
    "rows",
    [[], [("a", 1, None)], [("城市 :smile:", -1.5, True), (None, 1_000, False), ("x\ty", None, "long text")]],
)
def test_a_table_in_a_pipe_is_laid_out_as_in_a_wide_terminal(
    rows: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ("text", "number", "a longer name")
    print_table(columns, rows)
    plain = capsys.readouterr().out
    monkeypatch.setattr(output, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "200")
    print_table(columns, rows)
    assert capsys.readouterr().out == plain


def test_a_table_in_a_pipe_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("text",), [("x" * 5_000,)])
    assert "x" * 5_000 in capsys.readouterr().out


def test_a_table_without_rows_shows_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [])
    assert capsys.readouterr().out.splitlines()[0] == "a   b"


def test_json_is_ascii_and_strict(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "ä\ud800", "n": float("nan")})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {"text": "ä\ud800", "n": "NaN"}


def test_repeated_columns_get_a_number() -> None:
    assert unique_names(["a", "a", "a_2", "a"]) == ["a", "a_2", "a_2_2", "a_3"]


def test_a_console_is_as_wide_as_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "1")
    monkeypatch.setattr("lakestream.cli.base.output.is_terminal", lambda _stream: True)
    assert console().width == 80


def test_a_table_without_room_for_its_names_is_a_block_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("lakestream.cli.base.output.is_terminal", lambda _stream: True)
    print_table(
        ("database", "name", "rows", "definition"), [("main", "a", 5, "x" * 20), ("main", "b", None, "y")]
    )
    assert capsys.readouterr().out.splitlines() == [
        "row 1 ────────────────────────",
        "database     main",
        "name         a",
        "rows         5",
        "definition   xxxxxxxxxxxxxxxxx",
        "             xxx",
        "row 2 ────────────────────────",
        "database     main",
        "name         b",
        "rows         NULL",
        "definition   y",
    ]
    # Where there is room for the names, their values are folded below them.
    print_table(("name", "definition"), [("a", "x" * 30)])
    assert "definition" in capsys.readouterr().out.splitlines()[0]


def test_no_list_of_columns_is_cut_or_loses_a_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lakestream.cli.base.output.is_terminal", lambda _stream: True)
    for width in (20, 40, 80, 132):
        monkeypatch.setenv("COLUMNS", str(width))
        for count in range(1, 16):
            names = [f"column{number}" for number in range(count)]
            print_table(names, [range(10_000, 10_000 + count)])
            out = capsys.readouterr().out
            assert all(len(line) <= width for line in out.splitlines())
            assert "…" not in out
            words = out.split()
            assert all(name in words and str(10_000 + at) in words for at, name in enumerate(names))
