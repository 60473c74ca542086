"""Daemons that share a lake's streams, simulated: commits come at random, rounds take what has come.

A daemon takes its streams in one thread: it looks at their sources and, where there is something new, runs
a round of the streams concerned; else it waits for a moment. What a step takes is what was measured.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import simpy

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.scale.costs import Costs

POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Load:
    """Streams with a source each, shared evenly by daemons; commits of ``rows`` a second to each source.

    ``waits`` seconds are added to each round, in which it computes nothing: requests to a store.
    """

    streams: int
    daemons: int
    commits_per_second: float
    rows: int = 100
    waits: float = 0.0
    seconds: float = 120.0
    seed: int = 1


@dataclass
class Outcome:
    """What came of a load: how long commits waited for their output, and what daemons were busy with."""

    waited: list[float] = field(default_factory=list)
    busy: float = 0.0
    rounds: int = 0
    left: int = 0

    def percentile(self, part: float) -> float:
        """Return the seconds within which a part of the commits was in the output."""
        ordered = sorted(self.waited)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


class _Daemon:
    def __init__(
        self, env: simpy.Environment, load: Load, costs: Costs, streams: int, outcome: Outcome
    ) -> None:
        self.env, self.load, self.costs, self.outcome = env, load, costs, outcome
        self.streams = streams
        self.waiting: dict[int, list[float]] = {}

    def write(self, stream: int, drawn: random.Random) -> Generator[simpy.Event, None, None]:
        """Commit to a source, at random moments."""
        while True:
            yield self.env.timeout(drawn.expovariate(self.load.commits_per_second))
            self.waiting.setdefault(stream, []).append(self.env.now)

    def serve(self) -> Generator[simpy.Event, None, None]:
        """Look, and take what has come."""
        look = self.costs.look.of(self.streams)
        while True:
            taken, self.waiting = self.waiting, {}
            yield from self._work(look)
            if not taken:
                yield self.env.timeout(POLL_SECONDS)
                continue
            commits = sum(map(len, taken.values()))
            behind = self.costs.commits.each * (commits - len(taken))
            more = self.costs.rows.each * (self.load.rows - 100) * commits
            yield from self._work(self.costs.round.of(len(taken)) + behind + max(0.0, more))
            yield self.env.timeout(self.load.waits)
            self.outcome.rounds += 1
            self.outcome.waited += [self.env.now - at for times in taken.values() for at in times]

    def _work(self, seconds: float) -> Generator[simpy.Event, None, None]:
        yield self.env.timeout(seconds)
        self.outcome.busy += seconds


def simulated(load: Load, costs: Costs) -> Outcome:
    """Simulate a load; the busy seconds are those of all daemons, a part of all that there are."""
    env, outcome, drawn = simpy.Environment(), Outcome(), random.Random(load.seed)
    daemons = []
    for number in range(load.daemons):
        streams = load.streams // load.daemons + (number < load.streams % load.daemons)
        daemon = _Daemon(env, load, costs, streams, outcome)
        daemons.append(daemon)
        env.process(daemon.serve())
        for stream in range(streams):
            env.process(daemon.write(stream, random.Random(drawn.random())))
    env.run(until=load.seconds)
    outcome.busy /= load.daemons * load.seconds
    outcome.left = sum(len(times) for daemon in daemons for times in daemon.waiting.values())
    return outcome


def expected(costs: Costs, ticking: list[list[int]]) -> float:
    """Return the seconds that rounds take in which these streams tick, by the measured costs."""
    return sum(costs.round.of(len(one)) for one in ticking)
