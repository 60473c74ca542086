"""What the daemon that serves the lake does for the command line: an answer without starting Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from lakestream.cli.base.session import quoted_stream
from lakestream.engine.base.result import Result
from lakestream.errors import BusyError, ConfigError, LakestreamError, Place
from lakestream.language.model import TableName

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic import SecretStr

    from lakestream.observation.comparison import Difference
    from lakestream.observation.verify import Verification

_UNAUTHORISED = 401


@dataclass(frozen=True)
class Queued:
    """A recalculation that the daemon will do, and since when."""

    id: str
    at: datetime
    resync: bool


@dataclass(frozen=True)
class Stand:
    """How far a recalculation has come; ``obstacle`` is why it goes no further by itself."""

    status: str
    part: int
    parts: int | None
    rows: int
    obstacle: str | None

    @property
    def is_open(self) -> bool:
        """Whether it is not done yet."""
        return self.status != "Done"


class RemoteLake:
    """What has the daemon at ``url`` do the work; the current database is kept between statements.

    ``token`` is asked for the server's token once it is needed, ``confirm`` answers questions.
    ``certificate`` is a file with that of the daemon, where it answers https: it is believed whatever name it
    is for, since the daemon is found by the lake's own files.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], SecretStr | None],
        confirm: Callable[[str], bool],
        certificate: Path | None = None,
    ) -> None:
        self._url = url
        self._token = token
        self._confirm = confirm
        self._database = "main"
        self._headers = {"Content-Type": "application/json"}
        # The standard library's client: another one would take longer to load than the answer takes.
        # A proxy of the environment is not asked: the daemon is on this machine.
        handlers = [] if certificate is None else [_believing(certificate)]
        self._open = build_opener(ProxyHandler({}), *handlers).open

    def sql(self, text: str, dialect: str = "tdengine") -> Result:
        """Run the statements of a text and return the result of the last one, as ``Lake.sql`` does.

        Raises what the statement raised, and BusyError DAEMON_UNREACHABLE.
        """
        asked = {"sql": text, "dialect": dialect, "database": self._database}
        try:
            answer = self._ask("/api/statements", asked)
        except LakestreamError as error:
            if error.code != "CONFIRMATION_NEEDED" or not self._confirm(error.message):
                raise _placed(error, text) from None
            answer = self._ask("/api/statements", {**asked, "yes": True})
        self._database = answer["database"]
        return _result(answer)

    def explain(self, stream: str) -> Result:
        """Return the stages of a stream's next tick, as ``Lake.explain`` does."""
        return self.sql(f"EXPLAIN STREAM {quoted_stream(stream)}")

    def streams(self) -> list[TableName]:
        """Return the names of all streams. Raises BusyError DAEMON_UNREACHABLE."""
        rows = self.sql("SHOW STREAMS").fetchall()
        return [TableName(database, name) for database, name, *_ in rows]

    def verify(self, stream: str, start: str | None = None, end: str | None = None) -> Verification:
        """Compare a stream's output with the batch evaluation of its definition, as ``Lake.verify`` does.

        Raises what that raises, and BusyError DAEMON_UNREACHABLE.
        """
        from lakestream.observation.quarantines import QuarantineVerification
        from lakestream.observation.verify import Verification

        answer = self._ask(f"{_path(stream)}/verify", {"from": start, "to": end})
        types = answer.pop("types")
        answer["differing"] = tuple(_difference(types, one) for one in answer["differing"])
        lists = {name: tuple(answer[name]) for name in ("columns", "left_out_columns")}
        quarantines = tuple(QuarantineVerification(**one) for one in answer["quarantines"])
        return Verification(**{**answer, **lists, "quarantines": quarantines})

    def recalculate(
        self, stream: str, start: str | None = None, end: str | None = None, *, resync: bool = False
    ) -> Queued:
        """Queue a recalculation, as ``Lake.recalculate`` does; :meth:`recalculation` tells how it goes.

        Raises what that raises, and BusyError DAEMON_UNREACHABLE.
        """
        asked = {"from": start, "to": end, "resync": resync}
        answer = self._ask(f"{_path(stream)}/recalculate", asked)
        return Queued(answer["id"], datetime.fromisoformat(answer["at"]), resync)

    def recalculation(self, stream: str, queued: Queued) -> Stand:
        """Return how far a recalculation has come. Raises BusyError DAEMON_UNREACHABLE."""
        answer = self._ask(_path(stream))
        job = next((job for job in answer["recalculations"] if job["id"] == queued.id), None)
        if job is None:
            return Stand("Gone", 0, None, 0, "the stream was replaced meanwhile")
        reason = None if job["status"] == "Done" else _obstacle(answer, job, queued)
        return Stand(job["status"], job["done"], job["parts"], job["rows"], reason)

    def _ask(self, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a document, or get one; the token is given once it is asked for."""
        try:
            return self._send(path, document)
        except HTTPError as error:
            if error.code != _UNAUTHORISED:
                raise _error(error) from None
            if (token := self._token()) is None:
                raise _token_needed("the daemon that serves the lake asks for a token") from None
            self._headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        try:
            return self._send(path, document)
        except HTTPError as error:
            if error.code == _UNAUTHORISED:
                raise _token_needed("the daemon does not know the token that server_token says") from None
            raise _error(error) from None

    def _send(self, path: str, document: dict[str, Any] | None) -> dict[str, Any]:
        content = None if document is None else json.dumps(document).encode()
        request = Request(self._url + path, content, self._headers)  # noqa: S310 (http)
        try:
            with self._open(request) as answer:
                found: dict[str, Any] = json.load(answer)
        except HTTPError:
            raise
        except (URLError, ConnectionError) as error:
            raise BusyError(
                "DAEMON_UNREACHABLE",
                f"the daemon at {self._url} does not answer: {getattr(error, 'reason', error)}",
                hint="--no-daemon does without it",
            ) from None
        return found


def _believing(certificate: Path) -> HTTPSHandler:
    import ssl

    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return HTTPSHandler(context=context)


def _path(stream: str) -> str:
    """Return the path of a stream, ``s`` or ``db.s``."""
    database, _, name = stream.rpartition(".")
    return f"/api/streams/{quote(database or 'main', safe='')}/{quote(name, safe='')}"


def _obstacle(stream: dict[str, Any], job: dict[str, Any], queued: Queued) -> str | None:
    """Return why a stream does not go on with a recalculation; a resynchronisation takes up a failed one."""
    failed = [
        error["message"] for error in stream["errors"] if datetime.fromisoformat(error["at"]) > queued.at
    ]
    if failed:
        return str(failed[0])
    takes_up = queued.resync and job["status"] == "Waiting"
    if stream["status"] == "Stopped" or (stream["status"] == "Failed" and not takes_up):
        return str(stream["last_error"] or f"the stream is {stream['status'].lower()}")
    held: str | None = stream["held_back"]
    return held


def _error(answer: HTTPError) -> LakestreamError:
    """Return the error that the daemon tells of."""
    document = json.loads(answer.read())["error"]
    place = document.get("place")
    error = LakestreamError(document["code"], document["message"], hint=document.get("hint", ""))
    error.place = Place(**place) if place else None
    error.exit_status = document["exit_status"]
    return error


def _token_needed(message: str) -> ConfigError:
    hint = "`lakestream token create` makes one, LAKESTREAM_SERVER_TOKEN gives it; --no-daemon does without"
    return ConfigError("TOKEN_NEEDED", message, hint=hint)


def _placed(error: LakestreamError, text: str) -> LakestreamError:
    """Give an error the text of its statement back."""
    if error.place is not None:
        error.place = Place(error.place.line, error.place.column, error.place.length, text)
    return error


def _result(answer: dict[str, Any]) -> Result:
    types = answer["types"]
    rows = [tuple(map(_value, types, row)) for row in answer["rows"]]
    return Result(answer["columns"], rows, message=answer["message"], truncated=answer["truncated"])


def _difference(types: list[str], document: dict[str, Any]) -> Difference:
    from lakestream.observation.comparison import Difference

    sides = [
        None if side is None else tuple(map(_value, types, side))
        for side in (document["expected"], document["found"])
    ]
    return Difference(tuple(document["key"]), *sides)


def _value(kind: str, value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return a value as the statement gave it; what JSON has no word for came as text."""
    if not isinstance(value, str):
        return value
    if kind.startswith("timestamp"):
        return datetime.fromisoformat(value)
    return float(value) if kind in {"float", "double"} else value
