"""Random histories of rows that come and change, as steps that a lake is told and the reference is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.faults import TICK_POINTS
from tests.reference.stream import Change, Run, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from tests.reference.stream import Row

TABLES = {"t1": "A", "t2": "B", "t3": "A"}
VALUES = (None, 0, 1, 1, 1, 2, 2, 3)
SHARES = (0.5, 0.5, 2.25, 1e6, -3.25, None)
GAPS = {"equal times": (0, 0, 1, 3), "in order": (1, 1, 2, 3, 6, 13)}
"""Seconds between rows."""
COMMITS = 8
AT_THE_END = 100
"""Seconds of the clock after the last commit: every delay has passed."""


@dataclass(frozen=True)
class Step:
    """A commit of changes, a run at an instant, or a new process; ``how`` says by what."""

    kind: str
    changes: tuple[Change, ...] = ()
    now: int = 0
    how: str = ""


@dataclass
class Drawn:
    """A history as it is drawn, with the rows there are."""

    random: Random
    of: Mapping[str, str]
    commits: int = COMMITS
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    newest: int = 5
    clock: int = 0
    changed: bool = False
    steps: list[Step] = field(default_factory=list)

    def draw(self) -> list[Step]:
        """Return the steps."""
        random, process = self.random, self.of["process"]
        before = random.random() < 0.5
        if before:
            self.arrive()
        self.steps.append(Step("create"))
        for number in range(self.commits):
            if self.changes_at(number):
                self.change()
            else:
                self.arrive()
            if random.random() < (0.15 if process == "many commits" else 0.5):
                self.run()
        self.run()
        self.clock += AT_THE_END
        self.run()
        return self.steps

    def changes_at(self, number: int) -> bool:
        """Draw whether rows change in a commit, where they do; in the last one at the latest."""
        if self.of["change"] == "none" or number <= self.commits // 3 or not self.rows:
            return False
        return self.random.random() < 0.4 or (number == self.commits - 1 and not self.changed)

    def run(self) -> None:
        """Run, by a new process perhaps."""
        self.clock = max(self.clock + 1, self.newest + self.random.randint(0, 5), self.clock)
        process = self.of["process"]
        if process in ("restarts", "by spark") and self.random.random() < 0.5:
            self.steps.append(Step("reopen"))
        how = self.random.choice(TICK_POINTS) if process == "crashes" and self.random.random() < 0.5 else ""
        self.steps.append(
            Step("run", now=self.clock, how=f"{how}:{self.random.randint(1, 9)}" if how else "")
        )

    def arrive(self) -> None:
        """Let rows come."""
        changes = {}
        for _ in range(self.random.randint(1, 4)):
            row = self.row(self.random.choice([*TABLES, "plain", "plain"]), self.instant())
            if key_of(row) not in self.rows and key_of(row) not in changes:
                changes[key_of(row)] = Change(None, row)
        self.commit(list(changes.values()))

    def instant(self) -> int:
        """Draw the time of a row."""
        random, arrival = self.random, self.of["arrival"]
        if arrival == "out of order" and random.random() < 0.4:
            return max(0, self.newest - random.randint(0, 3))
        if arrival == "late" and random.random() < 0.4:
            return max(0, self.newest - random.randint(0, 25))
        self.newest += random.choice(GAPS.get(arrival, GAPS["in order"]))
        return self.newest

    def row(self, table: str, ts: int) -> Row:
        """Draw a row of a table."""
        random = self.random
        place = TABLES.get(table) or random.choice("AB")
        row = {
            "tbname": table,
            "loc": place,
            "ts": ts,
            "v": random.choice(VALUES),
            "x": random.choice(SHARES),
        }
        return {**row, "k": random.randint(0, 1)} if self.of["key"] == "composite" else row

    def change(self) -> None:
        """Let rows change."""
        random, kind, self.changed = self.random, self.of["change"], True
        chosen = random.sample(sorted(self.rows, key=str), min(len(self.rows), random.randint(1, 2)))
        changes = []
        for key in chosen:
            old = self.rows[key]
            fresh = self.row(old["tbname"], old["ts"])
            if kind == "delete":
                changes.append(Change(old, None))
            elif kind in ("rewrite", "update"):
                new = {**old, "v": fresh["v"], "x": fresh["x"]}
                if new != old:
                    changes.append(Change(old, new))
            else:
                tables = ["plain"] if old["tbname"] == "plain" else list(TABLES)
                table = random.choice(tables)
                ts = max(0, old["ts"] + random.choice((0, 1, -1, 7, -12)))
                new = {
                    **old,
                    "tbname": table,
                    "loc": TABLES.get(table, old["loc"]),
                    "ts": ts,
                    "v": fresh["v"],
                }
                taken = {key_of(c.new) for c in changes if c.new} | set(self.rows)
                if new != old and (key_of(new) == key or key_of(new) not in taken):
                    changes = [Change(old, new)]
                    break
        self.commit(changes)

    def commit(self, changes: list[Change]) -> None:
        """Note a commit: one of each table that it has rows of."""
        for plain in (False, True):
            part = [c for c in changes if ((c.new or c.old or {})["tbname"] == "plain") == plain]
            if not part:
                continue
            self.steps.append(Step("commit", tuple(part), how=self.of["change"]))
            for change in part:
                if change.old is not None:
                    self.rows.pop(key_of(change.old), None)
                if change.new is not None:
                    self.rows[key_of(change.new)] = change.new


def history_of(steps: Sequence[Step], source: str) -> tuple[list[Change], list[Sequence[Change] | Run]]:
    """Return what was there before the stream, and its history."""
    before: list[Change] = []
    found: list[Sequence[Change] | Run] = []
    created = False
    for step in steps:
        created = created or step.kind == "create"
        if step.kind == "run":
            found.append(Run(step.now))
        part = [c for c in (seen_by(source, change) for change in step.changes) if c is not None]
        if part and created:
            found.append(part)
        elif part:
            before += part
    return before, found


def seen_by(source: str, change: Change) -> Change | None:
    """Return a change as a source has it; None where it has nothing of it."""

    def seen(row: Row | None) -> Row | None:
        names = {"super": tuple(TABLES), "child": ("t1",), "plain": ("plain",)}[source]
        return row if row is not None and row["tbname"] in names else None

    old, new = seen(change.old), seen(change.new)
    return None if old is None and new is None else Change(old, new)


def shown(steps: Sequence[Step]) -> str:
    """Return the steps as text."""
    lines = []
    for step in steps:
        listed = "; ".join(f"{_row(change.old)} -> {_row(change.new)}" for change in step.changes)
        lines.append(
            f"  {step.kind} {listed or (step.now if step.kind == 'run' else '')} {step.how}".rstrip()
        )
    return "\n".join(lines)


def _row(row: Row | None) -> str:
    if row is None:
        return "-"
    number = f".{row['k']}" if "k" in row else ""
    return f"{row['tbname']}({row['loc']})@{row['ts']}{number} v={row['v']} x={row['x']}"
