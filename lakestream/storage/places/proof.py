"""Whether a store does what sharing a lake in it needs: conditional writes, and one time for all."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.errors import LakeError, StorageError
from lakestream.storage.places.files import is_uri, store_answers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from obstore.store import ObjectStore

    from lakestream.clock import Clock

MOST_SKEW_SECONDS = 30.0
"""How far the clock of a machine may be from the store's."""


def prove_store(folder: str, clock: Clock) -> None:
    """Try to write under conditions that do not hold in a store's folder, and look when it was written to.

    Of a folder the time alone is looked at. Takes five requests, and leaves nothing there. Raises
    LakeError STORE_WITHOUT_CONDITIONS, StorageError CLOCK_SKEW, and what files.store_answers does.
    """
    name = f"probe-{uuid4().hex}"
    if not is_uri(folder):
        written, place = clock.now(), Path(folder, name)
        place.touch()
        changed = place.stat().st_mtime
        place.unlink()
        _refuse_skew(folder, written, datetime.fromtimestamp(changed, UTC))
        return
    with store_answers(folder) as store:
        written = clock.now()
        store.put(name, b"{}")
        try:
            if not (_refuses(store, name, "create") and _refuses(store, name, {"e_tag": f'"{uuid4().hex}"'})):
                raise LakeError(
                    "STORE_WITHOUT_CONDITIONS",
                    f"the store of {folder} passes over the conditions of writes: "
                    "two writers would write over one another",
                    hint="take a store that has conditional writes (If-None-Match and If-Match)",
                )
            _refuse_skew(folder, written, store.head(name)["last_modified"])
        finally:
            store.delete(name)


def _refuses(store: ObjectStore, name: str, mode: Literal["create"] | Mapping[str, str]) -> bool:
    """Return whether the store refuses a write under a condition that does not hold."""
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    try:
        store.put(name, b"{}", mode=mode)  # type: ignore[arg-type]  # a mapping is what it takes for one
    except (AlreadyExistsError, PreconditionError):
        return True
    return False


def _refuse_skew(folder: str, here: datetime, there: datetime) -> None:
    skew = (here - there).total_seconds()
    if abs(skew) > MOST_SKEW_SECONDS:
        raise StorageError(
            "CLOCK_SKEW",
            f"the clock of this machine is {abs(skew):,.0f} s {'ahead of' if skew > 0 else 'behind'} "
            f"that of the store of {folder}, which other daemons go by too",
            hint="set the clock, by NTP",
        )
