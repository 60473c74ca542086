"""Statements through the daemon that serves the lake: an answer without starting Spark."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from lakestream.engine.result import Result
from lakestream.errors import BusyError, LakestreamError, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import SecretStr

_UNAUTHORISED = 401


class RemoteLake:
    """What runs statements in the daemon at ``url``; the current database is kept between them.

    ``token`` is asked for the server's token once it is needed, ``confirm`` answers questions.
    """

    def __init__(
        self, url: str, token: Callable[[], SecretStr | None], confirm: Callable[[str], bool]
    ) -> None:
        self._url = url
        self._token = token
        self._confirm = confirm
        self._database = "main"
        self._headers = {"Content-Type": "application/json"}
        # The standard library's client: another one would take longer to load than the answer takes.
        # A proxy of the environment is not asked: the daemon is on this machine.
        self._open = build_opener(ProxyHandler({})).open

    def sql(self, text: str, dialect: str = "tdengine") -> Result:
        """Run the statements of a text and return the result of the last one, as ``Lake.sql`` does.

        Raises what the statement raised, and BusyError DAEMON_UNREACHABLE.
        """
        asked = {"sql": text, "dialect": dialect, "database": self._database}
        try:
            answer = self._post("/api/statements", asked)
        except LakestreamError as error:
            if error.code != "CONFIRMATION_NEEDED" or not self._confirm(error.message):
                raise _placed(error, text) from None
            answer = self._post("/api/statements", {**asked, "yes": True})
        self._database = answer["database"]
        return _result(answer)

    def _post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._send(path, document)
        except HTTPError as error:
            if error.code != _UNAUTHORISED or (token := self._token()) is None:
                raise _error(error) from None
            self._headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        try:
            return self._send(path, document)
        except HTTPError as error:
            raise _error(error) from None

    def _send(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        request = Request(self._url + path, json.dumps(document).encode(), self._headers)  # noqa: S310 (http)
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


def _error(answer: HTTPError) -> LakestreamError:
    """Return the error that the daemon tells of."""
    told = json.loads(answer.read())["error"]
    place = told.get("place")
    error = LakestreamError(told["code"], told["message"], hint=told.get("hint", ""))
    error.place = Place(**place) if place else None
    error.exit_status = told["exit_status"]
    return error


def _placed(error: LakestreamError, text: str) -> LakestreamError:
    """Give an error the text of its statement back."""
    if error.place is not None:
        error.place = Place(error.place.line, error.place.column, error.place.length, text)
    return error


def _result(answer: dict[str, Any]) -> Result:
    types = answer["types"]
    rows = [tuple(map(_value, types, row)) for row in answer["rows"]]
    return Result(answer["columns"], rows, message=answer["message"], truncated=answer["truncated"])


def _value(kind: str, value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return a value as the statement gave it; what JSON has no word for came as text."""
    if not isinstance(value, str):
        return value
    if kind.startswith("timestamp"):
        return datetime.fromisoformat(value)
    return float(value) if kind in {"float", "double"} else value
