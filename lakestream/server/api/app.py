"""The HTTP API: routes over the reader, the statements and the live messages."""

from __future__ import annotations

import asyncio
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import FastAPI, Path, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from lakestream import __version__
from lakestream.engine.base.instants import from_micros
from lakestream.engine.base.result import Result
from lakestream.errors import BusyError, LakestreamError, PrerequisiteError, SparkGoneError, StatementError
from lakestream.language.quoting import quoted, quoted_text
from lakestream.server.api.asking import ROW_LIMIT, Asker, Service, noting_refusal, run_statements
from lakestream.server.api.guard import Guard, Keys, RequestRefused, error_answer
from lakestream.server.api.permits import require, who_asks
from lakestream.server.api.reference import reference
from lakestream.server.api.rows import column_types, json_rows, verification_document
from lakestream.server.shown.documents import (
    ColumnDocument,
    ErrorDocument,
    EventDocument,
    LakeDocument,
    LineageDocument,
    MessageDocument,
    Problem,
    QueryDocument,
    QueuedDocument,
    RangeRequest,
    RecalculateRequest,
    RowsDocument,
    RunDocument,
    RunningDocument,
    StatementDocument,
    StatementRequest,
    StreamDetails,
    StreamDocument,
    VerificationDocument,
)
from lakestream.statements.workspace import DEFAULT_DATABASE
from lakestream.storage.records.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lakestream.lake import Lake
    from lakestream.server.news.live import Live

STATIC = FilePath(__file__).parent / "static"

_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
_NOT_FOUND = ("STREAM_NOT_FOUND", "TABLE_NOT_FOUND", "DATABASE_NOT_FOUND", "QUERY_NOT_FOUND")

_T = TypeVar("_T")

Name = Annotated[str, Path(max_length=128)]
Limit = Annotated[int, Query(ge=1, le=ROW_LIMIT)]


def create_app(service: Service, *, names: frozenset[str], keys: Keys) -> Guard:
    """Return the application; ``names`` are the host names that it is reached by beside addresses."""
    app = FastAPI(
        title="lakestream",
        version=__version__,
        docs_url=None,  # its page would come from elsewhere; ours is below
        redoc_url=None,
        responses={400: {"model": ErrorDocument}, 404: {"model": ErrorDocument}},
    )
    _add_errors(app)
    _add_looks(app, service)
    _add_stream_looks(app, service)
    _add_statements(app, service)
    _add_queries(app, service)
    _add_live(app, service.live)
    _add_page(app)
    return Guard(app, names, keys)


# --- errors ---


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(LakestreamError)
    def refused(_: Request, error: LakestreamError) -> Response:
        return error_answer(status_of(error), problem_of(error))

    @app.exception_handler(HTTPException)
    def answered(_: Request, error: HTTPException) -> Response:
        if isinstance(error, RequestRefused):
            return error_answer(error.status_code, error.problem)
        code = _CODES.get(error.status_code, "BAD_REQUEST")
        return error_answer(error.status_code, Problem(code=code, message=str(error.detail)))

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error_answer(400, Problem(code="BAD_REQUEST", message=f"{where}: {first['msg']}"))

    @app.exception_handler(Exception)
    def broken(_: Request, error: Exception) -> Response:
        # The log has the traceback; who asked learns no more than its kind.
        message = f"{type(error).__name__}: this is a defect of lakestream"
        return error_answer(500, Problem(code="INTERNAL", message=message, exit_status=70))


def status_of(error: LakestreamError) -> int:
    """Return the HTTP status of an error."""
    if error.code in _NOT_FOUND:
        return 404
    if error.code == "FORBIDDEN":
        return 403
    if error.code == "TOO_MANY_STATEMENTS":
        return 429
    if isinstance(error, BusyError | PrerequisiteError | SparkGoneError):
        return 503
    return 400 if isinstance(error, StatementError) else 409


def problem_of(error: LakestreamError) -> Problem:
    """Return an error as the API tells it."""
    return Problem.model_validate({**error.to_dict(), "exit_status": error.exit_status})


# --- what only looks ---


def _add_looks(app: FastAPI, service: Service) -> None:
    reader = service.reader

    @app.get("/healthz", responses={503: {"description": "rounds fail, or one does not end"}})
    def health() -> Response:
        """Tell whether rounds go on, fail, or one of them does not end."""
        status = service.health()
        code = 200 if status == "ok" else 503
        return Response(f'{{"status":"{status}"}}', code, media_type="application/json")

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics(request: Request) -> Response:
        """Return metrics for Prometheus."""
        require(who_asks(request), Scope.READ)
        return Response(service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/api/lake")
    def lake() -> LakeDocument:
        """Tell what lake this is, and who serves it."""
        return reader.lake()

    @app.get("/api/streams")
    def streams(request: Request) -> list[StreamDocument]:
        """Return every stream and its state, of the databases that the token is for."""
        return [one for one in reader.streams() if who_asks(request).reaches(one.database)]

    @app.get("/api/queries")
    def queries(request: Request) -> list[QueryDocument]:
        """Return the continuous queries of IoTDB's dialect, by name."""
        require(who_asks(request), Scope.READ)
        return reader.queries()

    @app.get("/api/lineage")
    def lineage(request: Request) -> LineageDocument:
        """Return the streams and their tables, of the databases that the token is for.

        Continuous queries, which no database has, are told to a token for all of them.
        """
        return reader.lineage(who_asks(request).reaches)

    @app.get("/api/events")
    def events(
        request: Request, stream: str | None = None, after: str | None = None, limit: Limit = 100
    ) -> list[EventDocument]:
        """Return events of the outbox behind the id `after` (else the newest ones), oldest first."""
        require(who_asks(request), Scope.READ, _database_of(stream))
        return reader.events(stream, after, limit)


def _add_stream_looks(app: FastAPI, service: Service) -> None:
    reader = service.reader

    @app.get("/api/streams/{database}/{name}")
    def stream(request: Request, database: Name, name: Name) -> StreamDetails:
        """Return a stream, its definition, recalculations and failures."""
        require(who_asks(request), Scope.READ, database)
        return reader.stream(f"{database}.{name}")

    @app.get("/api/streams/{database}/{name}/runs")
    def runs(request: Request, database: Name, name: Name, limit: Limit = 200) -> list[RunDocument]:
        """Return the last ticks and failures of a stream, newest first."""
        require(who_asks(request), Scope.READ, database)
        return reader.runs(f"{database}.{name}", limit)

    @app.get("/api/streams/{database}/{name}/output")
    async def output(request: Request, database: Name, name: Name, limit: Limit = 500) -> RowsDocument:
        """Return the newest rows of a stream's output, newest first."""
        require(who_asks(request), Scope.READ, database)
        stream = f"{database}.{name}"
        rows = await service.statements.run(
            lambda lake: lake.newest_results(stream, limit, windows=True),
            _gone(request),
            _asker(request).sent(f"the newest rows of {stream}"),
        )
        last = rows.num_columns - 1
        result, windows = Result(arrow=rows.remove_column(last)), rows.column(last).to_pylist()
        columns = [
            ColumnDocument(name=column, type=kind)
            for column, kind in zip(result.columns, column_types(result), strict=True)
        ]
        return RowsDocument(columns=columns, rows=json_rows(result), windows=windows)


# --- what changes something ---


def _add_statements(app: FastAPI, service: Service) -> None:
    statements = service.statements

    @app.post("/api/statements")
    async def run(request: Request, asked: StatementRequest) -> StatementDocument:
        """Run statements, and return the result of the last one."""

        def document(result: Result, database: str) -> StatementDocument:
            return StatementDocument(
                columns=list(result.columns),
                types=column_types(result),
                rows=json_rows(result),
                message=result.message,
                truncated=result.truncated,
                database=database,
            )

        return await run_statements(service, _asker(request), asked, _gone(request), document)

    async def change(request: Request, database: str, did: str, work: Callable[[Lake], _T]) -> _T:
        """Do something that changes a stream of a database, and note it."""
        asker = _asker(request)

        def noted(lake: Lake) -> _T:
            with noting_refusal(service, asker, did):
                require(asker.principal, Scope.WRITE, database)
            lake.restrict(asker.principal.databases)
            with service.audit.noting(asker.principal.name, asker.address, did):
                return work(lake)

        return await statements.run(noted, _gone(request), asker.sent(did))

    @app.post("/api/streams/{database}/{name}/start")
    async def start(request: Request, database: Name, name: Name) -> MessageDocument:
        """Start a stream that was stopped or has failed."""
        sql = f"START STREAM {quoted(database)}.{quoted(name)}"
        result = await change(request, database, sql, lambda lake: lake.sql(sql))
        return MessageDocument(message=result.message)

    @app.post("/api/streams/{database}/{name}/stop")
    async def stop(request: Request, database: Name, name: Name) -> MessageDocument:
        """Stop a stream until it is started again."""
        sql = f"STOP STREAM {quoted(database)}.{quoted(name)}"
        result = await change(request, database, sql, lambda lake: lake.sql(sql))
        return MessageDocument(message=result.message)

    @app.post("/api/streams/{database}/{name}/recalculate")
    async def recalculate(
        request: Request, database: Name, name: Name, asked: RecalculateRequest
    ) -> QueuedDocument:
        """Queue a recalculation of a range of event time, or of everything from the source as it is."""
        stream = f"{database}.{name}"
        job = await change(
            request,
            database,
            f"RECALCULATE STREAM {quoted(database)}.{quoted(name)}",
            lambda lake: lake.recalculate(stream, asked.start, asked.end, resync=asked.resync),
        )
        message = f"queued: the next round recalculates {stream}"
        return QueuedDocument(message=message, id=job.id, at=from_micros(job.requested_us))

    @app.post("/api/streams/{database}/{name}/verify")
    async def verify(
        request: Request, database: Name, name: Name, asked: RangeRequest
    ) -> VerificationDocument:
        """Compare a stream's output with the batch evaluation of its definition, however long it takes."""
        require(who_asks(request), Scope.READ, database)
        stream = f"{database}.{name}"
        found = await statements.run(
            lambda lake: lake.verify(stream, asked.start, asked.end),
            _gone(request),
            _asker(request).sent(f"VERIFY STREAM {quoted(database)}.{quoted(name)}"),
            limited=False,
        )
        return verification_document(found)


def _add_queries(app: FastAPI, service: Service) -> None:
    queries = service.statements.queries

    @app.get("/api/statements")
    def running(request: Request) -> list[RunningDocument]:
        """Return the statements that run or wait for their turn: of all for an admin, else one's own."""
        found = queries.of(_asker(request).sees)
        return [RunningDocument.model_validate(query, from_attributes=True) for query in found]

    @app.delete("/api/statements/{query}")
    def kill(request: Request, query: str) -> MessageDocument:
        """End a statement that runs or waits: any for an admin, else one's own."""
        asker = _asker(request)
        with service.audit.noting(asker.principal.name, asker.address, f"KILL QUERY {quoted_text(query)}"):
            queries.kill(query, asker.sees)
        return MessageDocument(message=f"ended {query}")


def _database_of(stream: str | None) -> str | None:
    """Return the database that the name of a stream says, None for no stream: all of them."""
    return None if not stream else stream.rpartition(".")[0] or DEFAULT_DATABASE


def _asker(request: Request) -> Asker:
    return Asker(who_asks(request), request.client.host if request.client else "")


def _gone(request: Request) -> Callable[[], Awaitable[None]]:
    """Return what waits until the client of a request hangs up."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return gone


# --- live ---


def _add_live(app: FastAPI, live: Live) -> None:
    @app.websocket("/api/live")
    async def listen(websocket: WebSocket, stream: str | None = None) -> None:
        principal = who_asks(websocket)
        try:
            if stream:
                require(principal, Scope.READ, _database_of(stream))
        except RequestRefused as refusal:
            await websocket.close(1008, refusal.problem.code)
            return
        await websocket.accept()
        subscriber = live.subscribe(stream or None, principal.reaches)
        hearing = asyncio.ensure_future(_until_gone(websocket))
        try:
            await _tell(websocket, subscriber.queue, hearing)
        finally:
            hearing.cancel()
            live.unsubscribe(subscriber)


async def _tell(
    websocket: WebSocket, queue: asyncio.Queue[dict[str, Any] | None], gone: asyncio.Future[None]
) -> None:
    """Send what comes until the client goes or does not keep up."""
    while True:
        coming = asyncio.ensure_future(queue.get())
        both: set[asyncio.Future[Any]] = {coming, gone}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            coming.cancel()
            return
        message = coming.result()
        if message is None:
            await websocket.close(1013, "too slow")
            return
        await websocket.send_json(message)


async def _until_gone(websocket: WebSocket) -> None:
    """Pass over what a client says until it goes."""
    try:
        while True:
            await websocket.receive_text()
    except (WebSocketDisconnect, RuntimeError, KeyError):
        return


# --- the page ---


def _add_page(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        """Return the reference of these routes."""
        return HTMLResponse(reference(app.openapi()))

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        index = STATIC / "index.html"
        if not index.is_file():
            raise HTTPException(404, "the page is not installed")
        return FileResponse(index)

    if STATIC.is_dir():
        app.mount("/static", StaticFiles(directory=STATIC), name="static")
