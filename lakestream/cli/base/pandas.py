"""Arrow does without pandas until somebody else imports it.

Arrow imports pandas with the first list that it is given, to tell lists from what pandas has: a quarter of a
second, a sixth of what a job over few rows takes. Nothing can be of pandas that nobody has imported.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def leave_pandas_for_later() -> None:
    """Have Arrow take what pandas has from the import of pandas on, which it does not import by itself."""
    sys.meta_path.insert(0, _Following())


class _Following:
    """Finds the two packages where they are, and has Arrow look for pandas when either has been imported."""

    def __init__(self) -> None:
        self._then = {"pyarrow": self._look_in_vain, "pandas": self._look_again}
        self._hides = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._then:
            return None
        if self._hides and name == "pandas":
            raise ModuleNotFoundError(name=name)
        found = PathFinder.find_spec(name, path)
        if found is None or found.loader is None:
            return None
        execute, then = found.loader.exec_module, self._then[name]

        def execute_then(module: ModuleType) -> None:
            execute(module)
            then()

        found.loader.exec_module = execute_then  # type: ignore[method-assign]
        return found

    def _look_in_vain(self) -> None:
        """Have Arrow look for pandas where it is not to be found: it does so by itself only once."""
        if "pandas" in sys.modules:
            return
        import pyarrow as pa

        self._hides = True
        try:
            pa.array([])
        finally:
            self._hides = False

    def _look_again(self) -> None:
        """Have Arrow, where it is there, look once more: for what it makes of pandas it has to."""
        if "pyarrow" in sys.modules:
            import pyarrow as pa

            with suppress(ImportError):  # a pandas that is too old for Arrow
                pa.nulls(0).to_pandas()
