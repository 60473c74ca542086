"""Whatever is asked of the HTTP API, its answer is one that its OpenAPI document describes, and no 5xx."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from schemathesis import Case
    from starlette.testclient import TestClient

HELD = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
REQUESTS = 15
"""Of each route, valid ones and others."""


@pytest.mark.parametrize(
    ("mode", "token"),
    [
        (schemathesis.GenerationMode.POSITIVE, None),
        (schemathesis.GenerationMode.NEGATIVE, "a token of at least sixteen letters"),
    ],
)
def test_answers_are_those_of_the_document(
    serve: Callable[..., AbstractContextManager[TestClient]],
    token: str | None,
    mode: schemathesis.GenerationMode,
) -> None:
    asked: Counter[str] = Counter()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with serve(names=("testserver",), token=token) as client:
        schema = schemathesis.openapi.from_asgi("/openapi.json", client.app, headers=headers)
        operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
        assert len(operations) > 10
        for operation in operations:

            @seed(1)
            @settings(
                max_examples=REQUESTS, deadline=None, suppress_health_check=[*HealthCheck], database=None
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Case[Any]) -> None:
                asked[case.operation.label] += 1
                case.call_and_validate(headers=headers, checks=HELD)

            # Of a route that takes nothing there is nothing wrong to be asked.
            with suppress(Unsatisfiable):
                ask()
    assert asked.total() > 100
    # Of a name that may be any text, none is wrong.
    assert token or asked.keys() == {operation.label for operation in operations}
