"""Contracts: what endpoints published of themselves, read: types with their fields, who sends and who handles them.

Beside it the same as an AsyncAPI document, and as a picture.

Invariants: only what endpoints published is shown, as text; a picture has no scripts and nothing from elsewhere. All is
made in a thread, by one walk through what is published; there are `MOST` types, and of each so many fields and users.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from starlette.responses import Response

from rowbus.contracts.asyncapi import to_asyncapi
from rowbus.contracts.bodies import written
from rowbus.contracts.contract import LEAVING, Action, key_of
from rowbus.contracts.examples import example
from rowbus.contracts.map import merge, to_svg
from rowbus.contracts.published import look_for_published
from rowbus.messages.bodies.shape import is_list
from rowbus.web.pages import Page, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rowbus.contracts.contract import Contract, Message, Schema, Use
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.web.visit import Visit

TITLE: Final = "Contracts"
T = TypeVar("T")
MOST: Final = 100  # types
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


class Shown(NamedTuple):
    """The first types of those that are asked for, and the number of the others."""

    types: list[Type]
    left: int


def types_of(contract: Contract, text: str = "") -> Shown:
    """Return the types of a contract, only those whose name or an endpoint of which holds a text, in any case."""
    wanted, uses = text.casefold(), contract.uses_by_message(*LEAVING, Action.HANDLE)
    queues = {party.name: party.queue for party in contract.parties}
    found = [
        message
        for message in contract.messages
        if any(
            wanted in name.casefold()
            for name in (message.name, *(use.endpoint for use in uses[message.name]))
        )
    ]
    types = [
        Type(
            message,
            list(islice(_fields(contract, message.payload), MOST)),
            [
                Part(use.endpoint, _does(use), queues.get(use.endpoint, ""))
                for use in _sorted(uses[message.name])[:MOST]
            ],
            written(example(contract, message.name)).decode(),
        )
        for message in found[:MOST]
    ]
    return Shown(types, len(found) - len(types))


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


def _sorted(uses: Iterable[Use]) -> list[Use]:
    """Return uses with those who send first, and those who handle last."""
    return sorted(uses, key=lambda use: (*LEAVING, Action.HANDLE).index(use.action))


def _does(use: Use) -> str:
    told = [f" to {use.to}"] if use.to else []
    told += [f", saga {use.saga}"] if use.saga else []
    told += [f", at {use.schedule}"] if use.schedule else []
    return f"{_DOES[use.action]}{''.join(told)}"


async def _show(visit: Visit) -> Response:
    text = visit.query.get("text", "").strip()
    shown, left_out = await _made(visit, lambda contract: types_of(contract, text))
    return visit.render("contracts.html", shown=shown, left_out=left_out, most=MOST, text=text)


async def _document(visit: Visit) -> Response:
    made, _ = await _made(visit, lambda contract: msgspec.json.encode(to_asyncapi(contract)))
    return Response(made, media_type="application/json")


async def _map(visit: Visit) -> Response:
    made, _ = await _made(
        visit, lambda contract: to_svg(contract._replace(messages=contract.messages[:MOST]))
    )
    return Response(made, media_type="image/svg+xml")


async def _made(visit: Visit, make: Callable[[Contract], T]) -> tuple[T, Mapping[QueueAddress, str]]:
    """Make something of what all endpoints published, in a thread; return it, and the tables that are not read."""

    def read(session: Session) -> tuple[T, Mapping[QueueAddress, str]]:
        found = look_for_published(session, visit.site.addresses)
        return make(merge(*(one.contract for one in found.contracts), title=TITLE)), found.left_out

    return await visit.read(read)


PAGE: Final = Page(
    TITLE,
    (
        View("contracts", "/contracts", _show),
        View("contracts.document", "/contracts/asyncapi.json", _document),
        View("contracts.map", "/contracts/map.svg", _map),
    ),
)
