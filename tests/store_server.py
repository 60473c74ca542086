"""A store of S3's protocol for tests: moto's, one request at a time, which tells what it was asked.

``python -m tests.store_server PORT`` runs it. Beside S3's requests it answers ``GET /_asked`` (what it was
asked since the last time, a JSON list) and ``PUT /_answers`` (how to answer from then on, see ``Answers``).
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from httpx2 import TransportError, get, put
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUCKET = "lakes"


@dataclass(frozen=True)
class Answers:
    """How a store answers: as S3 does, or with a refusal (an HTTP status and S3's code) to everything.

    ``conditions`` false passes over the headers of conditional writes, as stores do that have none. ``at``
    is the only request, from the first one on, that is not answered as S3 does (0: all are not); ``lost``
    does what is asked all the same, ``half`` breaks the answer off.
    """

    status: int = 200
    code: str = ""
    conditions: bool = True
    at: int = 0
    lost: bool = False
    half: bool = False


@dataclass(frozen=True)
class Asked:
    """A request: its method, bucket and key, what of it was asked for (``list`` or none), and who asked.

    ``condition`` is what a write depends on: ``absent``, ``same`` or none.
    """

    method: str
    path: str
    kind: str
    agent: str
    condition: str


class StoreServer:
    """A store in a process of its own: what asks it may hold this one's interpreter."""

    def __init__(self, url: str) -> None:
        self.url = url

    def environment(self) -> dict[str, str]:
        """Return the variables by which programs find the store."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
        }

    def asked(self) -> list[Asked]:
        """Return what the store was asked since this was called last."""
        return [Asked(**row) for row in get(f"{self.url}/_asked").json()]

    def answer(self, answers: Answers) -> None:
        """Have the store answer so from now on."""
        put(f"{self.url}/_answers", content=json.dumps(asdict(answers))).raise_for_status()


@contextmanager
def store_server() -> Iterator[StoreServer]:
    """Run a store with an empty bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.store_server", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = StoreServer(f"http://127.0.0.1:{port}")
    try:
        for attempt in Retrying(
            retry=retry_if_exception_type(TransportError), stop=stop_after_delay(60), wait=wait_fixed(0.1)
        ):
            with attempt:
                put(f"{store.url}/{BUCKET}").raise_for_status()
        yield store
    finally:
        process.kill()
        process.wait()


class _Recording:
    """moto's application with what is asked of it written down; a lock makes its conditions hold."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._guard = threading.Lock()
        self._asked: list[dict[str, str]] = []
        self._answers = Answers()
        self._number = 0

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        with self._guard:
            path = environ["PATH_INFO"]
            if path == "/_asked":
                asked, self._asked = self._asked, []
                return _answered(start, "200 OK", json.dumps(asked).encode())
            if path == "/_answers":
                content = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
                self._answers, self._number = Answers(**json.loads(content)), 0
                return _answered(start, "200 OK", b"")
            self._asked.append(_asked(environ))
            self._number += 1
            answers = self._answers if self._answers.at in (0, self._number) else Answers()
            if answers.code and not answers.lost:
                return _refused(start, answers)
            if not answers.conditions:
                for header in ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"):
                    environ.pop(header, None)
            found = b"".join(self._application(environ, (lambda *_: None) if answers.code else start))
            if answers.code:
                return _refused(start, answers)
            return [found[: len(found) // 2] if answers.half else found]


def _answered(start: Any, status: str, body: bytes) -> list[bytes]:
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _refused(start: Any, answers: Answers) -> list[bytes]:
    body = f"<Error><Code>{answers.code}</Code><Message>refused</Message></Error>"
    return _answered(start, f"{answers.status} Refused", body.encode())


def _asked(environ: dict[str, Any]) -> dict[str, str]:
    condition = "absent" if "HTTP_IF_NONE_MATCH" in environ else "same" if "HTTP_IF_MATCH" in environ else ""
    is_list = environ["REQUEST_METHOD"] == "GET" and "list-type" in environ["QUERY_STRING"]
    return {
        "method": environ["REQUEST_METHOD"],
        "path": environ["PATH_INFO"] + (f"?{environ['QUERY_STRING']}" if is_list else ""),
        "kind": "list" if is_list else "",
        "agent": environ.get("HTTP_USER_AGENT", ""),
        "condition": condition,
    }


def main() -> None:
    """Run the store until it is killed."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    application = _Recording(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)


if __name__ == "__main__":
    main()
