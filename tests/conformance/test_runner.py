"""The runner itself, on a fake engine: every step kind can hold, and can fail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance import selection
from tests.conformance.cases import Case, CaseFormatError, load
from tests.conformance.compare import difference, same_value
from tests.conformance.engines import Answer, Engine, Refused, decoded, encoded
from tests.conformance.runner import CaseFailed, literal, run_case

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2025, 1, 1, tzinfo=UTC)


class FakeEngine:
    """Remembers what it was asked, answers from a table of statements."""

    def __init__(self, log: list[str], answers: dict[str, Any], clock: datetime) -> None:
        self.log = log
        self.answers = answers
        log.append(f"start {clock:%H:%M:%S}")

    def sql(self, text: str, dialect: str) -> Answer:
        if text != "SHOW STREAMS":
            self.log.append(f"{dialect}: {text}")
        answer = self.answers.get(text, Answer((), []))
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Answer)
        return answer

    def insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        self.log.append(f"insert {table} {len(rows)}")

    def run(self) -> list[str]:
        self.log.append("run")
        return ["s: it broke"]

    def advance(self, by: timedelta) -> None:
        self.log.append(f"advance {by.total_seconds():g}")

    def occupy(self, query: str, takes: timedelta) -> None:
        self.log.append(f"occupy {query} {takes.total_seconds():g}")

    def fail(self, query: str, times: int) -> None:
        self.log.append(f"fail {query} {times}")

    def close(self) -> None:
        self.log.append("close")

    def kill(self) -> None:
        self.log.append("kill")


def case_file(folder: Path, steps: str, head: str = "dialect: tdengine") -> Path:
    """Write a file of one case."""
    text = f"- id: one\n  {head}\n  steps:\n" + "\n".join(
        f"    {line}" for line in dedent(steps).splitlines()
    )
    file = folder / "file.yaml"
    file.write_text(text)
    return file


def ran(
    folder: Path, steps: str, answers: dict[str, Any] | None = None, head: str = "dialect: tdengine"
) -> list[str]:
    """Run a case of these steps on a fake; return what the engine was asked."""
    (case,) = load(case_file(folder, steps, head))
    log: list[str] = []

    def start(clock: datetime) -> Engine:
        return FakeEngine(log, answers or {}, clock)

    run_case(case, start, folder)
    return log


ONE = {"SELECT 1": Answer(("Time", "B"), [(START, 1)])}


def test_every_step_reaches_the_engine(tmp_path: Path) -> None:
    steps = """
        - sql: [A, B]
        - insert: {table: t, rows: [{ts: x}, {ts: y}]}
        - delete: {table: t, where: "a = 1"}
        - delete: {table: root.sg.d, where: a = 1 OR b}
        - update: {table: t, set: {v: 2, w: it's, x: null}, where: "a = 1"}
        - run: idle
        - advance: 90s
        - occupy: {cq: c, for: 5s}
        - fail: {cq: c, times: 2}
        - restart: clean
        - restart: {mode: clean, down_for: 60s}
        """
    assert ran(tmp_path, steps, head='dialect: ekuiper\n  clock: "2025-01-01 00:00:00.000"') == [
        "start 00:00:00",
        "ekuiper: A",
        "ekuiper: B",
        "insert t 2",
        "tdengine: DELETE FROM t WHERE a = 1",
        "tdengine: DELETE FROM root.sg WHERE device = 'root.sg.d' AND (a = 1 OR b)",
        "tdengine: UPDATE t SET v = 2, w = 'it''s', x = NULL WHERE a = 1",
        "run",
        "advance 90",
        "run",
        "occupy c 5",
        "fail c 2",
        "close",
        "start 00:01:30",
        "close",
        "start 00:02:30",
        "run",
        "close",
    ]


def test_kill_kills(tmp_path: Path) -> None:
    assert ran(tmp_path, "- restart: kill") == ["start 00:00:00", "kill", "start 00:00:00", "close"]


def test_expect_holds(tmp_path: Path) -> None:
    ran(tmp_path, '- expect: {sql: SELECT 1, rows: [["2025-01-01 00:00:00.000", 1.0]]}', ONE)
    ran(tmp_path, "- expect: {sql: SELECT 1, columns: [b], dialect: iotdb, rows: [[1]]}", ONE)


@pytest.mark.parametrize(
    "step",
    [
        '- expect: {sql: SELECT 1, rows: [["2025-01-01 00:00:00.001", 1]]}',
        '- expect: {sql: SELECT 1, rows: [["2025-01-01 00:00:00.000", 2]]}',
        "- expect: {sql: SELECT 1, rows: []}",
        "- expect: {sql: SELECT 1, columns: [c], rows: [[1]]}",
        "- expect_error: {sql: SELECT 1, match: x}",
        "- expect_error: {sql: BAD, match: other clause}",
        "- sql: BAD",
        "- expect_events: [{eventType: WINDOW_CLOSE}]",
    ],
)
def test_a_case_that_does_not_hold_fails(tmp_path: Path, step: str) -> None:
    with pytest.raises(CaseFailed, match="tdengine/file/one, step 1"):
        ran(tmp_path, step, {**ONE, "BAD": Refused("error[X]: the WATERMARK is wrong")})


def test_a_failed_stream_is_shown_where_a_case_does_not_hold(tmp_path: Path) -> None:
    ran(tmp_path, "- run: idle")
    with pytest.raises(CaseFailed, match="s: it broke"):
        ran(tmp_path, "- run: idle\n- expect: {sql: SELECT 1, rows: []}", ONE)


def test_expect_error_holds(tmp_path: Path) -> None:
    ran(tmp_path, "- expect_error: {sql: BAD, match: wat.*mark}", {"BAD": Refused("the WATERMARK is wrong")})


def test_a_refused_statement_may_leave_nothing(tmp_path: Path) -> None:
    class Leaving(FakeEngine):
        def sql(self, text: str, dialect: str) -> Answer:
            if text == "BAD":
                log = tmp_path / "main" / "t" / "_delta_log"
                log.mkdir(parents=True)
                (log / "0.json").touch()
            return super().sql(text, dialect)

    (case,) = load(case_file(tmp_path, "- expect_error: {sql: BAD, match: x}"))
    with pytest.raises(CaseFailed, match="remains"):
        run_case(case, lambda clock: Leaving([], {"BAD": Refused("x")}, clock), tmp_path)


def test_a_crash_is_not_a_failed_case(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        ran(tmp_path, "- sql: BAD", {"BAD": ZeroDivisionError()})


@pytest.mark.parametrize(
    "steps",
    [
        "- run: forever",
        "- advance: 1.5s",
        "- insert: {table: t}",
        "- expect: {sql: a, rows: [], tolerances: 1}",
        "- restart: softly",
        "- sleep: 10s",
        "- {run: idle, sql: a}",
    ],
)
def test_a_wrong_step_is_named(tmp_path: Path, steps: str) -> None:
    with pytest.raises(CaseFormatError):
        load(case_file(tmp_path, steps))


def test_a_folder_without_cases_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaseFormatError, match="no case files"):
        load(tmp_path)


def test_equality_of_values() -> None:
    assert same_value(Decimal("1.50"), 1.5, None)
    assert same_value(3, 3.0, None)
    assert same_value(0.1 + 0.2, 0.3, None)
    assert same_value(1.01, 1, 0.02)
    assert same_value(None, None, None)
    assert same_value(datetime(2025, 1, 1), "2025-01-01 00:00:00.000", None)  # noqa: DTZ001
    assert not same_value(True, 1, None)
    assert not same_value(None, 0, None)
    assert not same_value("1", 1, None)
    assert not same_value(1.01, 1, None)


def test_any_order_is_a_multiset() -> None:
    assert difference([(1,), (2,)], [[2], [1]], any_order=True) is None
    assert difference([(1,), (2,)], [[2], [1]])
    assert difference([(1,), (1,), (2,)], [[1], [2], [2]], any_order=True)


def test_values_pass_through_the_child_process() -> None:
    values = [START, Decimal("1.5"), None, True, 1, 1.5, "x", [1, START]]
    assert decoded(encoded(values)) == values


def test_literals() -> None:
    assert [literal(v) for v in (None, True, 2, 2.5, "a'b")] == ["NULL", "TRUE", "2", "2.5", "'a''b'"]


def test_the_projects_own_cases_are_well_formed_and_the_list_names_only_them() -> None:
    names = {case.name for case in load(selection.OWN_CASES)}
    assert set(selection.expected_failures()) <= names


def test_marks_of_listed_cases() -> None:
    case = Case("a/b/c", "", "tdengine", START, ())
    assert selection.marks(case, {}, set()) == []
    (mark,) = selection.marks(case, {"a/b/c": "SESSION"}, set())
    assert mark.kwargs["strict"]
    (mark,) = selection.marks(case, {}, {"a/b/c"})
    assert mark.name == "long"


def test_of_files_with_many_cases_one_of_eight_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        Case(f"a/{file}/{n}", "", "tdengine", START, ()) for file in "bc" for n in range(4 + (file == "c"))
    ]
    assert selection.left_cases(cases) == {"a/c/1", "a/c/2", "a/c/3", "a/c/4"}
    monkeypatch.setenv("CASES", "elsewhere")
    assert selection.left_cases(cases) == set()
