"""The small path: what is small is computed in this process, from the SQL that Spark would run."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from lakestream.engine.reading.transport import ARROW
from lakestream.errors import LakestreamError
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
    """Asks the small session first, and Spark where that does not answer exactly as Spark does.

    What is asked has done nothing before it has its answers, or does the same once more.
    """

    spark: Callable[[], SparkSession]
    is_on: bool
    session: SmallSession = field(default_factory=SmallSession)
    refused: dict[Hashable, str] = field(default_factory=dict)
    """What the session never answers, and why."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def takes(self, plan: TickPlan) -> bool:
        """Return whether a tick is small: its changes travel as Arrow."""
        return self.is_on and plan.transport == ARROW and not plan.spark_only

    def ask(self, question: Callable[[SparkSession], T], *, key: Hashable = None, small: bool = True) -> T:
        """Return the answer to a question of a session.

        ``key`` names questions that are put in the same SQL; ``small``: few rows are asked about.
        """
        if not (self.is_on and small) or key in self.refused:
            return question(self.spark())
        try:
            return self._answered(question)
        except NotExactError as why:
            _log.debug("Spark is asked: %s", why)
            if key is not None and why.always:
                self.refused[key] = str(why)
        return question(self.spark())

    def why_spark(self, question: Callable[[SparkSession], T], *, small: bool) -> str | None:
        """Return why Spark would be asked a question, None where the session answers it."""
        if not self.is_on:
            return "small_path is spark"
        if not small:
            return "its bytes do not move as Arrow"
        try:
            self._answered(question)
        except NotExactError as why:
            return str(why)
        except LakestreamError:
            pass  # an answer, which Spark would give too
        return None

    def interrupt(self) -> None:
        """Have the question that another thread waits for fail."""
        self.session.interrupt()

    def close(self) -> None:
        """Give the session's memory back."""
        with self._lock:
            self.session.close()

    def _answered(self, question: Callable[[SparkSession], T]) -> T:
        with self._lock:
            try:
                return question(cast("SparkSession", self.session))
            finally:
                self.session.clear()
