"""Several contracts as one, and a picture of it: who sends what to whom.

The picture has a line for each endpoint, and a row for each message, with an arrow from who sends it to who takes it.

Invariant: pure; the same contracts give the same picture; what one of them names differently is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.sax.saxutils import escape

from rowbus.contracts.contract import (
    LEAVING,
    Action,
    Contract,
    Message,
    Party,
    Use,
    free_name,
    key_of,
    reference_to,
)
from rowbus.messages.bodies.shape import is_list, is_object
from rowbus.messages.conventions import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COLUMN: Final = 220  # pixels, as all below
_ROW: Final = 34
_TOP: Final = 70
_BOX: Final = (150, 30)
_COLOURS: Final = {Kind.COMMAND: "#1d4ed8", Kind.EVENT: "#047857", Kind.MESSAGE: "#6b7280"}
ELSEWHERE: Final = "elsewhere"
"""Stands for who sends or takes a message and is in none of the contracts."""


class Flow(NamedTuple):
    """A message on its way from one endpoint to another."""

    message: str
    kind: Kind
    sender: str
    receiver: str


def merge(*contracts: Contract, title: str = "") -> Contract:
    """Return the contract of a system of which each contract tells a part; of two that differ, the first counts."""
    parties: dict[str, Party] = {}
    for one in (one for each in contracts for one in each.parties):
        parties.setdefault(one.name, one)
    messages: dict[str, Message] = {}
    schemas: dict[str, Any] = {}
    for each in contracts:
        moved = _keys(each.schemas, schemas)
        for message in each.messages:
            known = messages.get(message.name)
            if known is None or (message.payload and not known.payload):
                messages[message.name] = message._replace(payload=_moved(message.payload, moved))
        for key, schema in each.schemas.items():
            schemas.setdefault(moved[key], _moved(schema, moved))
    return Contract(
        title or ", ".join(dict.fromkeys(one.title for one in contracts)),
        tuple(parties.values()),
        tuple(messages[name] for name in sorted(messages)),
        tuple(dict.fromkeys(use for each in contracts for use in each.uses)),
        dict(sorted(schemas.items())),
        tuple(dict.fromkeys(one for each in contracts for one in each.readers)),
    )


def _keys(own: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys for a contract's schemas under which there are no others, or the same with the same within."""
    keys = {key: key for key in own}
    refused: set[str] = set()

    def is_other(key: str) -> bool:
        return keys[key] in taken and taken[keys[key]] != _moved(own[key], keys)

    while (key := next(filter(is_other, own), None)) is not None:
        refused.add(keys[key])
        keys[key] = free_name(key, {*refused, *keys.values()})
    return keys


def _moved(schema: Any, keys: Mapping[str, str]) -> Any:  # noqa: ANN401 - any part of a schema
    if is_list(schema):
        return [_moved(one, keys) for one in schema]
    if not is_object(schema):
        return schema
    moved = {word: _moved(one, keys) for word, one in schema.items()}
    if "$ref" in moved:
        key = key_of(moved)
        moved |= reference_to(keys.get(key, key))
    return moved


def flows(contract: Contract) -> list[Flow]:
    """Return each message with who sends and who takes it, an entry for each pair; `ELSEWHERE` for who is not there."""
    found: dict[Flow, None] = {}
    queues = {party.queue: party.name for party in contract.parties}
    leaving, taken = contract.uses_by_message(*LEAVING), contract.uses_by_message(Action.HANDLE)
    published = contract.uses_by_message(Action.PUBLISH)
    come_as_another = {parent for one in contract.messages if one.name in published for parent in one.parents}
    for message in contract.messages:
        pairs = [
            (use.endpoint, receiver)
            for use in leaving[message.name]
            for receiver in _receivers(taken, message, use, queues) or [ELSEWHERE]
        ]
        if message.name not in come_as_another:  # else those that have it as a parent bring it
            reached = {receiver for _, receiver in pairs}
            names = [use.endpoint for use in taken[message.name]]
            pairs += [(ELSEWHERE, name) for name in names if name not in reached]
        found |= dict.fromkeys(Flow(message.name, message.kind, *pair) for pair in pairs)
    return list(found)


def _receivers(
    taken: Mapping[str, Sequence[Use]], message: Message, use: Use, queues: Mapping[str, str]
) -> list[str]:
    if use.to:
        return [queues[use.to]] if use.to in queues else []
    named = (one for name in dict.fromkeys((message.name, *message.parents)) for one in taken[name])
    wanted = (one for one in named if one.is_subscribed or use.action is not Action.PUBLISH)
    return list(dict.fromkeys(one.endpoint for one in wanted))


# ------------------------------------------------------------------------------------------------------------ picture


def to_svg(contract: Contract) -> str:
    """Return a picture of a contract as SVG: no scripts, nothing from elsewhere."""
    arrows = flows(contract)
    named = [*(party.name for party in contract.parties), *(one for flow in arrows for one in flow[2:])]
    columns = {name: place for place, name in enumerate(dict.fromkeys(named))}
    width, height = _COLUMN * max(len(columns), 1), _TOP + _ROW * (len(arrows) + 1)
    lines = [line for name, place in columns.items() for line in _column(name, place, height)]
    rows = [line for number, flow in enumerate(arrows) for line in _arrow(flow, columns, number)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" role="img">'
    )
    return "\n".join([head, f"<title>{escape(contract.title)}</title>", *lines, *rows, "</svg>\n"])


def _middle(place: int) -> int:
    return place * _COLUMN + _COLUMN // 2


def _column(name: str, place: int, height: int) -> Iterator[str]:
    middle, (wide, high) = _middle(place), _BOX
    dashes = ' stroke-dasharray="4 4"' if name == ELSEWHERE else ""
    yield f'<line x1="{middle}" y1="40" x2="{middle}" y2="{height - 10}" stroke="#9ca3af"{dashes}/>'
    yield (
        f'<rect x="{middle - wide // 2}" y="10" width="{wide}" height="{high}" rx="4" fill="#f3f4f6" '
        f'stroke="#374151"{dashes}/>'
    )
    yield f'<text x="{middle}" y="30" text-anchor="middle" font-weight="bold">{escape(name)}</text>'


def _arrow(flow: Flow, columns: Mapping[str, int], number: int) -> Iterator[str]:
    start, end = _middle(columns[flow.sender]), _middle(columns[flow.receiver])
    y, colour = _TOP + _ROW * (number + 1) - 10, _COLOURS[flow.kind]
    if start == end:
        yield f'<path d="M{start} {y - 6} h22 v12 h-18" fill="none" stroke="{colour}"/>'
        tip, text, anchor, y = start, start + 28, "start", y + 6
    else:
        yield f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="{colour}"/>'
        tip, text, anchor = end, (start + end) // 2, "middle"
    back = 7 if start >= end else -7
    yield f'<path d="M{tip} {y} l{back} -4 v8 z" fill="{colour}"/>'
    told = f"{flow.message} ({flow.kind.value})"
    yield f'<text x="{text}" y="{y - 5}" text-anchor="{anchor}" fill="{colour}">{escape(told)}</text>'
