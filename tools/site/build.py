"""Build the documentation as a site, into ``build/site``: ``make site``.

The tools stand in an environment of their own, made from ``tools/site/requirements.lock``. What is wrong with
a page (a link that leads nowhere, a page that is in no list) ends it with exit status 1, and so does a page
that would load something from elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

ROOT = Path(__file__).resolve().parents[2]
LOCK = Path(__file__).with_name("requirements.lock")
TOOLS = ROOT / "build" / "site-tools"
STAMP = TOOLS / ".lock"
SITE = ROOT / "build" / "site"
HTTP = ROOT / "build" / "http.html"
"""What the API says of itself: the end of the page on HTTP."""
UV = [str(ROOT / ".venv" / "bin" / "uv"), "--quiet"]

_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?(https?:[^\"\s>]+)")


def install() -> None:
    """Make the environment, unless it is there as the lock has it."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == digest:
        return
    subprocess.run([*UV, "venv", "--clear", "--python", sys.executable, str(TOOLS)], check=True)
    python = str(TOOLS / "bin" / "python")
    command = [*UV, "pip", "install", "--python", python, "--require-hashes", "-r", str(LOCK)]
    subprocess.run(command, check=True)
    STAMP.write_text(digest)


def describe_http() -> None:
    """Write the requests and documents of the HTTP API, as its OpenAPI description has them."""
    from lakestream.server.api.app import create_app
    from lakestream.server.api.asking import Service
    from lakestream.server.api.guard import Keys
    from lakestream.server.api.reference import markup

    app: Any = create_app(Service(*[Mock()] * 6), names=frozenset(), keys=Keys()).app
    HTTP.write_text(markup(app.openapi()), encoding="utf-8")


def loaded_from_elsewhere() -> list[str]:
    """Return the addresses that pages would load something from."""
    pages = SITE.rglob("*.html")
    return sorted({url for page in pages for url in _LOADED.findall(page.read_text(encoding="utf-8"))})


def main() -> int:
    """Build the site and return the exit status."""
    install()
    describe_http()
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [str(TOOLS / "bin" / "mkdocs"), "build", "--strict", "--clean", "--quiet"]
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        return 1
    if elsewhere := loaded_from_elsewhere():
        print(f"pages load from elsewhere: {', '.join(elsewhere)}", file=sys.stderr)
        return 1
    print(f"{(SITE / 'index.html').relative_to(ROOT)} is the documentation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
