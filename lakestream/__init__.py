"""Stream processing by SQL on Delta Lake: one ``CREATE STREAM`` keeps a Delta table current.

>>> import lakestream
>>> lakestream.__version__
'0.1.0'

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from lakestream.clock import Clock, ManualClock, SystemClock
    from lakestream.errors import LakestreamError
    from lakestream.lake import Lake
    from lakestream.settings import Settings

__version__ = "0.1.0"

__all__ = ["Clock", "Lake", "LakestreamError", "ManualClock", "Settings", "SystemClock", "__version__"]

_HOMES = {
    "Clock": "lakestream.clock",
    "Lake": "lakestream.lake",
    "LakestreamError": "lakestream.errors",
    "ManualClock": "lakestream.clock",
    "Settings": "lakestream.settings",
    "SystemClock": "lakestream.clock",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Give a notebook its magics: what ``%load_ext lakestream`` calls.

    Raises PrerequisiteError EXTRA_MISSING.
    """
    from lakestream.errors import extra

    with extra("notebook"):
        from lakestream.notebook.magics import load
    load(shell)
