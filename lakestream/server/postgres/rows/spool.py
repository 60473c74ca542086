"""Rows that wait until a client takes them: one thread gives them, and a loop takes them as they come.

The first ones wait in memory, further ones in a file that goes with the spool. Who computes rows so does not
wait for a client that reads slowly, or not at all, before it is very far behind.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections import deque
from typing import TYPE_CHECKING

from lakestream.errors import BusyError, StatementError
from lakestream.storage.places.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    import pyarrow as pa

PIECE_BYTES = 1 << 20
"""About how many bytes of rows are written and sent at a time."""
MOST_IN_MEMORY = 4 << 20
"""Bytes of rows that wait in memory."""
MOST_IN_FILE = 1 << 30
"""Bytes of rows that wait in the file before who computes them waits, too."""


class Spool:
    """The rows of one result; it is made, read and closed in a loop, and filled in another thread."""

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        """The columns, None before they are known."""
        self._loop, self._change = asyncio.get_running_loop(), asyncio.Event()
        self._waiting: deque[pa.Buffer | tuple[int, int]] = deque()
        self._in_memory = self._in_file = self._end = 0
        self._file: IO[bytes] | None = None
        self._guard = threading.Condition()
        self._is_ended = False

    # --- in the thread that has the rows --------------------------------------------------------

    def fill(self, rows: pa.RecordBatchReader, most: int) -> None:
        """Take all rows, piece by piece; ``most`` are the most that there may be, 0 for any number.

        Raises StatementError RESULT_TOO_LARGE, also where the disk has no room for those that wait, and
        BusyError STATEMENT_INTERRUPTED once nobody wants them any more.
        """
        self.schema, left = rows.schema, most
        self._notice()
        for batch in rows:
            for piece in _pieces(batch if not most else batch.slice(0, left)):
                self._put(piece.serialize())
            left -= batch.num_rows
            if most and left < 0:
                raise StatementError(
                    "RESULT_TOO_LARGE",
                    f"the result has more than {most:,} rows",
                    hint="LIMIT, or the setting postgres_rows",
                )

    def _put(self, piece: pa.Buffer) -> None:
        with self._guard:
            while not self._is_ended and self._in_file and self._end > MOST_IN_FILE:
                self._guard.wait()
            if self._is_ended:
                raise BusyError("STATEMENT_INTERRUPTED", "nobody waits for the rows any more")
            if self._in_memory < MOST_IN_MEMORY and not self._in_file:
                self._in_memory += piece.size
                self._waiting.append(piece)
            else:
                self._write(piece)
        self._notice()

    def _write(self, piece: pa.Buffer) -> None:
        if not self._in_file:
            self._end = 0  # what was there has been taken
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=scratch_folder(), buffering=0)  # noqa: SIM115
            written = os.pwrite(self._file.fileno(), piece, self._end)
        except OSError as error:
            written, why = 0, error.strerror
        else:
            why = "there is no room for them"
        if written < piece.size:
            raise StatementError(
                "RESULT_TOO_LARGE",
                f"the rows that wait for the client cannot be kept on disk: {why}",
                hint="LIMIT; the folder is that of the variable TMPDIR",
            )
        self._waiting.append((self._end, piece.size))
        self._end += piece.size
        self._in_file += piece.size

    def _notice(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._change.set)

    # --- in the loop ----------------------------------------------------------------------------

    async def changed(self) -> None:
        """Wait until there may be something new."""
        await self._change.wait()
        self._change.clear()

    def take(self) -> pa.RecordBatch | None:
        """Return the next rows, None where none wait now."""
        import pyarrow as pa

        with self._guard:
            if not self._waiting:
                return None
            piece = self._waiting.popleft()
            if isinstance(piece, tuple):
                assert self._file is not None
                start, size = piece
                piece = pa.py_buffer(os.pread(self._file.fileno(), size, start))
                self._in_file -= size
            else:
                self._in_memory -= piece.size
            self._guard.notify_all()
        return pa.ipc.read_record_batch(piece, self.schema)

    def end(self) -> None:
        """Take no more rows: who gives some is told that nobody wants them. Those that wait may be taken."""
        with self._guard:
            self._is_ended = True
            self._guard.notify_all()
        self._change.set()

    def close(self) -> None:
        """Let go of all rows, and take no more."""
        self.end()
        with self._guard:
            self._waiting.clear()
            if self._file is not None:
                self._file.close()


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in pieces of about as many bytes as are sent at a time."""
    rows = max(1, batch.num_rows * PIECE_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
