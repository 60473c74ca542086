"""The small path: what fits this process is computed in it, from the SQL that Spark would run."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from lakestream.engine.reading.apart import Apart
from lakestream.engine.reading.transport import ARROW, DUCKDB
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyspark.sql import SparkSession

    from lakestream.storage.records.registry import TickPlan

    T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass
class SmallPath:
    """Asks sessions of DuckDB first, and Spark where these do not answer exactly as Spark does.

    ``session`` is asked about few rows, ``larger`` about many. What is asked has done nothing before it has
    its answers, or does the same once more.
    """

    spark: Callable[[], SparkSession]
    is_on: bool
    larger: SmallSession
    session: SmallSession = field(default_factory=SmallSession)
    refused: dict[Hashable, str] = field(default_factory=dict)
    """What the sessions never answer, and why."""
    apart: Apart = field(default_factory=Apart)
    """How Spark is asked within a statement that holds the lake's lock."""
    brings_functions: Callable[[], bool] = lambda: True
    """Whether Spark may have functions of others, which it alone knows."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def takes(self, plan: TickPlan) -> bool:
        """Return whether a tick is computed here where it can be: its changes travel as Arrow."""
        return self.is_on and plan.transport in (ARROW, DUCKDB) and not plan.spark_only

    def ask(
        self,
        question: Callable[[SparkSession], T],
        *,
        key: Hashable = None,
        small: bool = True,
        many: bool = False,
        about: object = None,
        before_spark: Callable[[], None] = lambda: None,
    ) -> T:
        """Return the answer to a question of a session.

        ``key`` names questions that are put in the same SQL; ``small``: what they are about fits in here;
        ``many``: with all of its threads. What was refused about many rows once is left to Spark from then
        on: that shows when most of the work is done. ``about`` is all that Spark's answer depends on, where
        it may be asked apart; ``before_spark`` refuses what shows without it.
        """
        if self.is_on and small and not {(key, many), (key, False)} & self.refused.keys():
            try:
                return self._answered(question, many=many)
            except NotExactError as why:
                _log.debug("Spark is asked: %s", why)
                if key is not None and (why.always or many):
                    self.refused[key, many] = str(why)
        before_spark()
        return self._of_spark(question, about)

    def why_spark(
        self, question: Callable[[SparkSession], T], *, small: bool, many: bool = False
    ) -> str | None:
        """Return why Spark would be asked a question, None where a session answers it.

        Raises what an answer is that Spark would give too.
        """
        if not self.is_on:
            return "small_path is spark"
        if not small:
            return "its bytes do not move as Arrow"
        try:
            self._answered(question, many=many)
        except NotExactError as why:
            return str(why)
        return None

    def interrupt(self) -> None:
        """Have the question that another thread waits for fail."""
        self.session.interrupt()
        self.larger.interrupt()

    def close(self) -> None:
        """Give the sessions' memory back."""
        with self._lock:
            self.session.close()
            self.larger.close()

    def _of_spark(self, question: Callable[[SparkSession], T], about: object) -> T:
        if about is None:
            return question(self.spark())
        return self.apart.ask(about, lambda: question(self.spark()))

    def _answered(self, question: Callable[[SparkSession], T], *, many: bool) -> T:
        session = self.larger if many else self.session
        with self._lock:
            try:
                return question(cast("SparkSession", session))
            finally:
                session.clear()
