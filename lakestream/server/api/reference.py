"""The reference of the HTTP API as a page, made of its own description; nothing comes from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Described = Mapping[str, Any]


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>lakestream: the HTTP API</title>
<link rel="stylesheet" href="/static/style.css">
</head>
<body>
<main class="reference">
<h1>The HTTP API</h1>
<p><a href="/">All streams</a> · <a href="/openapi.json">openapi.json</a>, the same for programs</p>
{body}
</main>
</body>
</html>
"""


def reference(api: Described) -> str:
    """Return an OpenAPI description as a page."""
    return _PAGE.format(body=markup(api))


def markup(api: Described) -> str:
    """Return an OpenAPI description as HTML: each request with its parameters, then each document."""
    requests = "".join(
        _request(path, method, one)
        for path, methods in api["paths"].items()
        for method, one in methods.items()
    )
    documents = "".join(_document(name, one) for name, one in api["components"]["schemas"].items())
    return f"<h2>Requests</h2>{requests}<h2>Documents</h2>{documents}"


def _request(path: str, method: str, described: Described) -> str:
    rows = [
        (one["name"], one["in"], _type(one["schema"]), "" if one["required"] else "may be left out")
        for one in described.get("parameters", ())
    ]
    body = described.get("requestBody", {}).get("content", {})
    rows += [("", "body", _type(content["schema"]), kind) for kind, content in body.items()]
    answers = ", ".join(f"{status}: {answer}" for status, answer in _answers(described))
    about = f"<p>{escape(described.get('description', described.get('summary', '')))}</p>"
    return f"<h3>{method.upper()} {escape(path)}</h3>{about}{_table(rows)}<p>Answers {answers}</p>"


def _answers(described: Described) -> Iterator[tuple[str, str]]:
    for status, answer in described["responses"].items():
        kinds = [_type(content.get("schema", {})) for content in answer.get("content", {}).values()]
        yield status, kinds[0] if kinds and kinds[0] else escape(answer["description"])


def _document(name: str, described: Described) -> str:
    required = set(described.get("required", ()))
    rows = [
        (
            field,
            _type(one),
            "" if field in required else "may be left out",
            escape(one.get("description", "")),
        )
        for field, one in described.get("properties", {}).items()
    ]
    about = escape(described.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{about}</p>{_table(rows)}'


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{lines}</table>" if rows else ""


def _type(schema: Described) -> str:
    """Return a type as markup, with a link to the document that it names."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(escape(repr(one)) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(schema.get("format") or schema.get("type", ""))
