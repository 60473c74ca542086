"""Sessions of Spark Connect, whose Spark runs elsewhere: all that lakestream knows of them.

A frame of such a session names views, and looks them up whenever it is run; a classic one has looked them
up when it was made. Ticks give their views anew in between, so theirs are sessions whose frames are pinned.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from copy import deepcopy
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql.connect.client.core import ChannelBuilder
from pyspark.sql.connect.session import SparkSession

from lakestream.forked import at_exit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PINNED = "ls_pinned_"


class PinnedSession(SparkSession):
    """Another session of a session's server, whose frames keep what they were made of.

    What ``sql`` and ``table`` give is kept by the server as a temporary view of its own, which is analysed
    when it is made. Its name is free again once no frame is made of it: there are never more views than
    there were frames at a time.
    """

    def __init__(self, beside: SparkSession) -> None:
        connection: Any = deepcopy(beside.client._builder)  # noqa: SLF001 - as Spark's own cloneSession() does
        connection.set(ChannelBuilder.PARAM_SESSION_ID, str(uuid4()))
        super().__init__(connection, userId=beside.client._user_id)  # noqa: SLF001 - as above
        self.client.set_retry_policies(beside.client.get_retry_policies())
        _ALIVE.add(self)
        self._names = count()
        self._free: deque[str] = deque()

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: ANN401, N803 - Spark's
        """Run a statement; a query is that of the views that there are now."""
        return self._pinned(super().sql(sqlQuery, args, **kwargs))

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - as Spark names it
        """Return a table, or the view that has a name now."""
        return self._pinned(super().table(tableName))

    def checkpointed(self, frame: DataFrame) -> DataFrame:
        """Return a frame's rows as the server computes them now, once: PySpark takes the active session's."""
        active = SparkSession._active_session  # noqa: SLF001 - of this thread
        kept, active.session = getattr(active, "session", None), self
        try:
            return frame.localCheckpoint()
        finally:
            active.session = kept

    def __del__(self) -> None:
        """Close the connection, unless it is: to do so while Python ends would wait forever."""
        with suppress(AttributeError):  # of a session that was not made
            if not self.is_stopped:
                super().__del__()

    def release(self) -> None:
        """Give back what the server keeps of the session, if it still answers."""
        if self.is_stopped:
            return
        self.client.set_retry_policies([])
        with suppress(PySparkException):
            self.client.release_session()
        self.client.close()

    def _pinned(self, frame: DataFrame) -> DataFrame:
        try:
            name = self._free.popleft()
        except IndexError:
            name = f"{_PINNED}{next(self._names)}"
        frame.createOrReplaceTempView(name)
        pinned = super().table(name)
        # Frames that are made of this one hold its plan.
        weakref.finalize(pinned._plan, self._free.append, name).atexit = False  # noqa: SLF001 - as above
        return pinned


_ALIVE: weakref.WeakSet[PinnedSession] = weakref.WeakSet()


def _release_all() -> None:
    for session in list(_ALIVE):
        session.release()


at_exit(_release_all)


def has_ended(error: Exception) -> bool:
    """Return whether an error says that a session, or its server, is no more."""
    from pyspark.errors import PySparkAssertionError
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    if isinstance(error, PySparkAssertionError):  # another server answers under the address
        return True
    if not isinstance(error, SparkConnectGrpcException):
        return False
    gone = (error.getCondition() or "").startswith("INVALID_HANDLE.SESSION")
    return gone or error.getGrpcStatusCode().name == "UNAVAILABLE"
