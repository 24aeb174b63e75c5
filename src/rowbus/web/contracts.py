"""Contracts: what endpoints published of themselves, read: types with their fields, who sends and who handles them.

Beside it the same as an AsyncAPI document, and as a picture.

Invariant: only what endpoints published is shown, as text; a picture has no scripts and nothing from elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from starlette.responses import Response

from rowbus.contracts.asyncapi import to_asyncapi
from rowbus.contracts.bodies import written
from rowbus.contracts.contract import LEAVING, Action, key_of
from rowbus.contracts.examples import example
from rowbus.contracts.map import merge, to_svg
from rowbus.contracts.published import find_published
from rowbus.messages.bodies.shape import is_list
from rowbus.web.pages import Page, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.contracts.contract import Contract, Message, Schema, Use
    from rowbus.web.visit import Visit

TITLE: Final = "Contracts"
_DOES: Final = {
    Action.HANDLE: "handles",
    Action.SEND: "sends",
    Action.PUBLISH: "publishes",
    Action.REPLY: "replies",
}


class Field(NamedTuple):
    """A field of a type as people read it."""

    name: str
    type: str
    is_required: bool


class Part(NamedTuple):
    """A use that an endpoint makes of a type; `queue` is the endpoint's own, empty where it published none."""

    endpoint: str
    does: str
    queue: str


class Type(NamedTuple):
    """A type of message, with its fields, who does what with it, and a body that fits."""

    message: Message
    fields: list[Field]
    parts: list[Part]
    example: str


def types_of(contract: Contract, text: str = "") -> list[Type]:
    """Return the types of a contract, only those whose name or an endpoint of which holds a text, in any case."""
    found = [
        Type(
            message,
            list(_fields(contract, message.payload)),
            list(_parts(contract, message)),
            written(example(contract, message.name)).decode(),
        )
        for message in contract.messages
    ]
    wanted = text.casefold()
    return [
        one
        for one in found
        if any(
            wanted in name.casefold() for name in (one.message.name, *(part.endpoint for part in one.parts))
        )
    ]


def _fields(contract: Contract, payload: Schema) -> Iterator[Field]:
    schema = contract.resolved(payload)
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        yield Field(str(name), _told(one), name in required)


def _told(schema: Any) -> str:  # noqa: ANN401 - any part of a schema
    """Say what a schema takes, in a few words."""
    if name := key_of(schema):
        return name
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(map(_told, choices))
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema.get('x-enum-varnames', schema['enum'])))}"
    kind = schema.get("type", "anything")
    told = " or ".join(map(str, kind)) if is_list(kind) else str(kind)
    if isinstance(schema.get("items"), dict):
        return f"{told} of {_told(schema['items'])}"
    return f"{told} ({schema['format']})" if "format" in schema else told


def _parts(contract: Contract, message: Message) -> Iterator[Part]:
    queues = {party.name: party.queue for party in contract.parties}
    for action in (*LEAVING, Action.HANDLE):
        for use in contract.uses_of(message.name, action):
            yield Part(use.endpoint, _does(use), queues.get(use.endpoint, ""))


def _does(use: Use) -> str:
    told = [f" to {use.to}"] if use.to else []
    told += [f", saga {use.saga}"] if use.saga else []
    told += [f", at {use.schedule}"] if use.schedule else []
    return f"{_DOES[use.action]}{''.join(told)}"


async def _read(visit: Visit) -> Contract:
    found = await visit.read(find_published, visit.site.addresses)
    return merge(*(one.contract for one in found), title=TITLE)


async def _show(visit: Visit) -> Response:
    contract, text = await _read(visit), visit.query.get("text", "").strip()
    return visit.render("contracts.html", types=types_of(contract, text), parties=contract.parties, text=text)


async def _document(visit: Visit) -> Response:
    return Response(msgspec.json.encode(to_asyncapi(await _read(visit))), media_type="application/json")


async def _map(visit: Visit) -> Response:
    return Response(to_svg(await _read(visit)), media_type="image/svg+xml")


PAGE: Final = Page(
    TITLE,
    (
        View("contracts", "/contracts", _show),
        View("contracts.document", "/contracts/asyncapi.json", _document),
        View("contracts.map", "/contracts/map.svg", _map),
    ),
)
