"""The databases of a lake, by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakestream.errors import StatementError, did_you_mean
from lakestream.sorting import natural
from lakestream.storage.places.layout import SYSTEM_FOLDER
from lakestream.storage.records.keyed import KeyedTable

if TYPE_CHECKING:
    from lakestream.clock import Clock
    from lakestream.storage.places.layout import Layout

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_ROOT = "in IoTDB's dialect, where root is the tree's: --dialect iotdb"


class Databases:
    """The names of one lake's databases, and since when they are there."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock
        self._rows = KeyedTable(
            layout.system_path("databases"),
            {"name": "string", "created_us": "bigint"},
            "name",
        )

    def names(self) -> list[str]:
        """Return their names, sorted."""
        return sorted(self._rows.rows(), key=natural)

    def create(self, name: str, *, if_not_exists: bool = False) -> bool:
        """Make a database; False when it was there and ``if_not_exists``. Raises DATABASE_EXISTS."""
        self._layout.database_path(name)  # raises BAD_NAME
        known = {database.lower(): database for database in self.names()}
        if name.lower() in known:
            if if_not_exists and known[name.lower()] == name:
                return False
            raise StatementError("DATABASE_EXISTS", f"there is a database {known[name.lower()]}")
        if name.lower() == SYSTEM_FOLDER:
            raise StatementError("BAD_NAME", f"{name} is lakestream's own folder")
        micros = int((self._clock.now() - _EPOCH).total_seconds() * 1_000_000)
        self._rows.put([{"name": name, "created_us": micros}])
        return True

    def forget(self, name: str) -> None:
        """Drop a name, whose tables are gone."""
        self._rows.remove([name])

    def __contains__(self, name: str) -> bool:
        return name in self._rows.rows()

    def require(self, name: str) -> None:
        """Raise StatementError DATABASE_NOT_FOUND when there is no such database."""
        if name not in self._rows.rows():
            raise self.not_found(name)

    def not_found(self, name: str) -> StatementError:
        """Return the error of a database that is not there."""
        return StatementError(
            "DATABASE_NOT_FOUND",
            f"there is no database {name}",
            hint=_ROOT if name == "root" else did_you_mean(name, self.names()),
            missing=name,
        )
