"""The daemon's log: a line for each thing that has happened, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lakestream.settings import Settings

_FIELDS = ("stream", "code", "tick")
"""What a record may say of itself beside its message."""


class TextLines(logging.Formatter):
    """``2025-01-01T12:00:00.000Z INFO message``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's signature
        """Return when it happened, in UTC."""
        return _instant(record)


class JsonLines(logging.Formatter):
    """An object a line: ``at``, ``level``, ``logger``, ``message``, and what is known of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        line = {
            "at": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in _FIELDS if hasattr(record, name)},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


FORMATS: dict[Literal["text", "json"], type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}


def write_logs(settings: Settings) -> None:
    """Have all loggers of the process write to standard error; other packages' from a warning on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[settings.log_format]())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("lakestream", "lakestream.states"):
        logging.getLogger(name).setLevel(settings.log_level.upper())


def _instant(record: logging.LogRecord) -> str:
    happened = datetime.fromtimestamp(record.created, UTC)
    return happened.isoformat(timespec="milliseconds").replace("+00:00", "Z")
