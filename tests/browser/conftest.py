"""A headless Chromium on the page that the real application serves, over a lake made for it."""

from __future__ import annotations

import shutil
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.lake import ShownLake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from lakestream.server.news.live import Live

CHROMIUM = shutil.which("chromium")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a browser where there is none."""
    missing = pytest.mark.skip(reason="there is no Chromium: apt-get install chromium")
    for item in items:
        if item.get_closest_marker("browser") and CHROMIUM is None:
            item.add_marker(missing)


@dataclass
class Shown:
    """What is served: the lake behind it, its address, and messages to whoever listens."""

    lake: ShownLake
    live: Live
    url: str
    errors: list[str] = field(default_factory=list)

    def tell(self, **message: Any) -> None:
        self.live.publish(message)


@pytest.fixture
def shown() -> Iterator[Shown]:
    import uvicorn

    from lakestream.server.api.app import create_app
    from lakestream.server.api.asking import Service
    from lakestream.server.api.guard import Keys
    from lakestream.server.news.live import Live

    lake, live = ShownLake(), Live()
    listening = socket.create_server(("127.0.0.1", 0))
    service: Any = Service(lake, lake, live, lake, lambda: b"", lambda: "ok")  # type: ignore[arg-type]
    app = create_app(service, names=frozenset(), keys=Keys())
    config = uvicorn.Config(app, ws="websockets-sansio", lifespan="off", log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield Shown(lake, live, f"http://127.0.0.1:{listening.getsockname()[1]}")
    server.should_exit = server.force_exit = True
    thread.join(5)
    listening.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for a module: while it is open, its event loop keeps others from running."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # a slow machine is no failure
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser, shown: Shown) -> Iterator[Page]:
    """A page whose errors and refusals by the content policy fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.on("pageerror", lambda error: shown.errors.append(str(error)))
    opened.on("console", lambda said: shown.errors.append(said.text) if said.type == "error" else None)
    opened.goto(shown.url)
    yield opened
    context.close()
    assert shown.errors == []
