"""Loading the classes of triggers: only from modules and a folder that the settings name."""

from __future__ import annotations

import importlib
import importlib.machinery
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.hooks import Trigger

if TYPE_CHECKING:
    from collections.abc import Sequence

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_ARCHIVES = (".zip", ".whl")


def load_class(name: str, uri: str | None, modules: Sequence[str], folder: Path | None) -> type[Trigger]:
    """Return the class of a dotted name.

    Its module is one of ``modules`` (or below one), or lies in ``folder``, in a .zip or .whl of it where
    ``uri`` names that. Raises StatementError TRIGGER_CLASS, TRIGGER_URI or TRIGGER_NOT_ALLOWED.
    """
    if not _DOTTED.fullmatch(name):
        raise StatementError("TRIGGER_CLASS", f"{name!r} names no class", hint="'package.module.Class'")
    module, _, class_name = name.rpartition(".")
    if uri is not None:
        _put_on_path(_archive(uri, folder))
    _check_allowed(module, modules, folder)
    try:
        found = getattr(importlib.import_module(module), class_name, None)
    except Exception as error:
        raise StatementError("TRIGGER_CLASS", f"{name} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Trigger)):
        hint = "a subclass of lakestream.hooks.Trigger"
        raise StatementError("TRIGGER_CLASS", f"there is no trigger class {name}", hint=hint)
    return found


def _archive(uri: str, folder: Path | None) -> Path:
    if folder is None:
        raise StatementError(
            "TRIGGER_URI", "USING URI needs the setting trigger_lib_dir", hint="the folder of trigger files"
        )
    path = Path(uri.removeprefix("file://"))
    path = (path if path.is_absolute() else folder / path).resolve()
    if path.suffix not in _ARCHIVES or not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise StatementError(
            "TRIGGER_URI",
            f"{uri!r} is no .zip or .whl in the folder trigger_lib_dir",
            hint="put the file there; nothing is downloaded",
        )
    return path


def _check_allowed(module: str, modules: Sequence[str], folder: Path | None) -> None:
    """Refuse a module before it is imported: importing runs it."""
    if any(module == allowed or module.startswith(f"{allowed}.") for allowed in modules):
        return
    top = module.partition(".")[0]
    if folder is not None and top not in sys.modules:
        _put_on_path(folder.resolve())
    places = [place for place in sys.path if folder is not None and _lies_in(place, folder)]
    found = importlib.machinery.PathFinder.find_spec(top, places) if places else None
    origin = found.origin if found is not None else None
    loaded = getattr(sys.modules.get(top), "__file__", origin)
    if origin is None or folder is None or not _lies_in(str(loaded), folder):
        raise StatementError(
            "TRIGGER_NOT_ALLOWED",
            f"the module {module} may not be loaded for triggers",
            hint="the settings trigger_modules and trigger_lib_dir say which may",
        )


def _lies_in(place: str, folder: Path) -> bool:
    return bool(place) and Path(place).resolve().is_relative_to(folder.resolve())


def _put_on_path(place: Path) -> None:
    if str(place) not in sys.path:
        sys.path.append(str(place))
        importlib.invalidate_caches()
