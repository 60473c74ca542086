"""Environments of their own for what lakestream does not depend on: made on first use, below ``build/``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Apart:
    """An environment from a lock with hashes; ``finish`` fetches what else it needs, which ``also`` names."""

    name: str
    lock: Path
    also: str = ""
    finish: Callable[[], None] | None = None

    @property
    def folder(self) -> Path:
        """Where it stands."""
        return Path("build", self.name).absolute()

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def make(self) -> bool:
        """Make it unless it is there; False when that fails (what failed has said why)."""
        stamp = self.folder / ".made"
        try:
            if not stamp.exists() or stamp.read_text("utf-8") != self._digest():
                self._install()
                if self.finish is not None:
                    self.finish()
                stamp.write_text(self._digest(), "utf-8")
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            sys.stderr.write(f"the environment {self.name} could not be made: {error}\n")
            return False
        return True

    def _digest(self) -> str:
        content = f"{sys.version} {self.folder} {self.also}".encode() + self.lock.read_bytes()
        return hashlib.sha256(content).hexdigest()

    def _install(self) -> None:
        uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
        sys.stderr.write(f"making the environment {self.name}, once, in {self.folder}\n")
        create = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.folder)]
        subprocess.run(create, check=True)
        install = [uv, "pip", "install", "--quiet", "--python", self.python, "--require-hashes"]
        subprocess.run([*install, "-r", str(self.lock)], check=True)
