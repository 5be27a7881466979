"""What an operation of the admin API is, how a request becomes one, and its OpenAPI description."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from askonce import __version__
from askonce.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PREFIX = "/askonce/v1"
Place = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""In a log; what is beyond it no database counts."""


class Asked(msgspec.Struct, frozen=True):
    """One authorised request."""

    by: str
    """The token's name."""
    path: Mapping[str, str]
    query: Any
    body: Any


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    """Below the prefix; `{name}` is one segment."""
    summary: str
    run: Callable[[Asked], Awaitable[msgspec.Struct]]
    body: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct]

    def read_body(self, raw: bytes) -> msgspec.Struct | None:
        """The typed body; raises RequestError."""
        if self.body is None:
            return None
        try:
            return msgspec.json.decode(raw or b"{}", type=self.body)
        except msgspec.MsgspecError as error:
            says = f"The body is not as it should be: {error}."
            raise RequestError(says, code="invalid_body") from None

    def read_query(self, pairs: Iterable[tuple[str, str]]) -> msgspec.Struct | None:
        """The typed query string; raises RequestError."""
        if self.query is None:
            return None
        try:
            return msgspec.convert(dict(pairs), self.query, strict=False)
        except msgspec.MsgspecError as error:
            says = f"The query is not as it should be: {error}."
            raise RequestError(says, code="invalid_query") from None


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1 for these operations."""
    kinds = [kind for each in operations for kind in (each.body, each.query, each.answer) if kind]
    _, components = msgspec.json.schema_components(
        dict.fromkeys(kinds), ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = _described(each, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "AskOnce admin API", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(each: Operation, components: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "summary": each.summary,
        "operationId": each.run.__name__,
        "parameters": [*_in_path(each), *_in_query(each, components)],
        "responses": {
            "200": {"description": "Done", "content": _content(each.answer)},
            "default": {"description": "An error object, as OpenAI's"},
        },
    }
    if each.body is not None:
        told["requestBody"] = {"content": _content(each.body)}
    return told


def _content(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


def _in_path(each: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", each.path)
    ]


def _in_query(each: Operation, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    properties = components[each.query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": told} for name, told in properties.items()]
