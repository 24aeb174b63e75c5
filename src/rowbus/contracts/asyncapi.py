"""A contract as an AsyncAPI 3 document, and back.

Channels are queues, the topics of events, and logs; an operation is what one endpoint does with one type of message.
What AsyncAPI has no word for (kinds, parents, sagas, schedules) stands under `x-rowbus`.

Invariant: a contract that was written is read back equal; what others wrote is read as far as it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from rowbus.contracts.contract import (
    ANYTHING,
    Action,
    Contract,
    LogReader,
    Message,
    Party,
    Use,
    component_key,
    free_name,
)
from rowbus.contracts.soundness import require_schemas, require_sound, require_use
from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.json_bodies import JSON
from rowbus.messages.bodies.shape import is_object
from rowbus.messages.conventions import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OURS: Final = "x-rowbus"
VERSION: Final = "3.0.0"
_HEADERS: Final = {
    "headers": {
        "type": "object",
        "properties": {
            "NServiceBus.MessageId": {"type": "string"},
            "NServiceBus.EnclosedMessageTypes": {"type": "string"},
            "NServiceBus.ContentType": {"type": "string"},
            "NServiceBus.MessageIntent": {"enum": ["Send", "Publish", "Reply"]},
            "NServiceBus.ConversationId": {"type": "string"},
            "NServiceBus.CorrelationId": {"type": "string"},
            "NServiceBus.ReplyToAddress": {"type": "string"},
            "NServiceBus.TimeSent": {"type": "string"},
        },
        "required": ["NServiceBus.EnclosedMessageTypes"],
    }
}
_REPLIES: Final = "replies"
_KINDS: Final = {kind.value: kind for kind in Kind}
_RECEIVE: Final = "receive"


def to_asyncapi(contract: Contract) -> dict[str, Any]:
    """Return a contract as an AsyncAPI 3 document: dictionaries, lists and texts for any encoder of JSON or YAML."""
    written = _Document(contract)
    types = {party.content_type for party in contract.parties}
    return {
        "asyncapi": VERSION,
        "info": {"title": contract.title, "version": "1.0.0"},
        "defaultContentType": types.pop() if len(types) == 1 else JSON,
        "channels": written.channels,
        "operations": written.operations,
        "components": {
            "messages": {component_key(one.name): _message(one) for one in contract.messages},
            "schemas": dict(contract.schemas),
            "messageTraits": {"headers": _HEADERS},
        },
    }


class _Document:
    """The channels and operations of a contract, each under a name of its own."""

    def __init__(self, contract: Contract) -> None:
        self.channels: dict[str, Any] = {}
        self.operations: dict[str, Any] = {}
        self._queues = {party.queue: component_key(party.name) for party in contract.parties}
        self._handlers = {
            use.message: component_key(use.endpoint)
            for use in reversed(contract.uses_of_action(Action.HANDLE))
            if not use.is_subscribed
        }
        for party in contract.parties:
            ours = {"endpoint": party.name, "contentType": party.content_type}
            self._channel(component_key(party.name), party.queue, ours)
        for use in contract.uses:
            self._operate(use)
        for reader in contract.readers:
            key = f"log.{component_key(reader.log)}"
            self._channel(key, reader.log, {"log": reader.log})
            operation = _operation(_RECEIVE, key) | {OURS: {"consumer": reader.consumer}}
            self.operations[self._free(f"{key}.{component_key(reader.consumer)}")] = operation

    def _channel(self, key: str, address: str | None, ours: Mapping[str, str]) -> dict[str, Any]:
        made = {"address": address, "messages": {}, OURS: dict(ours)}
        return cast("dict[str, Any]", self.channels.setdefault(key, made))

    def _operate(self, use: Use) -> None:
        key, address = self._place(use)
        message = component_key(use.message)
        channel = self._channel(key, address, {})
        channel["messages"][message] = {"$ref": f"#/components/messages/{message}"}
        given = _operation(_RECEIVE if use.action is Action.HANDLE else "send", key)
        given["messages"] = [{"$ref": f"#/channels/{key}/messages/{message}"}]
        name = self._free(f"{component_key(use.endpoint)}.{use.action.value}.{message}")
        self.operations[name] = given | {OURS: _said(use)}

    def _place(self, use: Use) -> tuple[str, str | None]:
        """Return the key and the address of the channel of a use; no address for one that is known at run time only."""
        if use.action is Action.REPLY:
            return _REPLIES, None
        if use.is_subscribed or use.action is Action.PUBLISH:
            return f"topic.{component_key(use.message)}", use.message
        if use.action is Action.HANDLE:
            return component_key(use.endpoint), None
        if use.to:
            return self._queues.get(use.to, component_key(use.to.replace('"', ""))), use.to
        return self._handlers.get(use.message, f"to.{component_key(use.message)}"), None

    def _free(self, name: str) -> str:
        return free_name(name, self.operations, ".")


def _operation(action: str, channel: str) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}}


def _message(message: Message) -> dict[str, Any]:
    ours = {"kind": message.kind.value, "parents": list(message.parents)}
    return {
        "name": message.name,
        "title": message.name.rpartition(".")[2],
        **({"summary": message.description} if message.description else {}),
        "payload": dict(message.payload),
        "traits": [{"$ref": "#/components/messageTraits/headers"}],
        OURS: ours,
    }


def _said(use: Use) -> dict[str, Any]:
    """Return what an operation says of a use: the fields that have a value."""
    told = use._asdict() | {"action": use.action.value}
    return {name: value for name, value in told.items() if value}


# ------------------------------------------------------------------------------------------------------------ reading


def from_asyncapi(document: object) -> Contract:
    """Return the contract that an AsyncAPI 3 document describes; `document` is as a decoder of JSON or YAML gives it.

    Raises ConfigurationError for what is no such document.
    """
    read = _dictionary(document)
    version = str(read.get("asyncapi", ""))
    if not version.startswith("3."):
        said = f"AsyncAPI {version}" if version else "no AsyncAPI document: the key asyncapi is missing"
        raise ConfigurationError(f"This is {said}; what is read is AsyncAPI 3.")
    require_sound(read)
    components = _part(read, "components")
    messages = {**_inline(read), **_part(components, "messages")}
    found = [_read_message(key, _dictionary(one)) for key, one in messages.items()]
    require_schemas([*_part(components, "schemas").values(), *(one.payload for one in found)])
    title = str(_part(read, "info").get("title", ""))
    return Contract(
        title,
        tuple(_parties(read)),
        tuple(sorted(found, key=lambda one: one.name)),
        tuple(_uses(read, title, {component_key(one.name): one.name for one in found})),
        dict(sorted(_part(components, "schemas").items())),
        tuple(_readers(read)),
    )


def _dictionary(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigurationError(f"Where AsyncAPI has an object, the document has {str(value)[:80]!r}.")
    return cast("dict[str, Any]", value)


def _part(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _dictionary(document.get(name))


def _each(document: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    return map(_dictionary, _part(document, name).values())


def _inline(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the messages that stand in channels."""
    pairs = [pair for each in _each(document, "channels") for pair in _part(each, "messages").items()]
    return {key: one for key, one in pairs if "$ref" not in _dictionary(one)}


def _read_message(key: str, message: Mapping[str, Any]) -> Message:
    ours, payload = _part(message, OURS), _part(message, "payload")
    return Message(
        str(message.get("name", key)),
        _KINDS.get(str(ours.get("kind")), Kind.MESSAGE),
        tuple(map(str, ours.get("parents", ()))),
        payload.get("schema", ANYTHING) if "schemaFormat" in payload else payload,
        str(message.get("summary", "")),
    )


def _parties(document: Mapping[str, Any]) -> Iterator[Party]:
    for channel in _each(document, "channels"):
        ours = _part(channel, OURS)
        if "endpoint" in ours:
            yield Party(
                str(ours["endpoint"]), str(channel.get("address", "")), str(ours.get("contentType", ""))
            )


def _readers(document: Mapping[str, Any]) -> Iterator[LogReader]:
    for operation in _each(document, "operations"):
        ours = _part(operation, OURS)
        if "consumer" in ours:
            key = _last(operation.get("channel"))
            channel = _part(_part(document, "channels"), key)
            yield LogReader(str(channel.get("address", key)), str(ours["consumer"]))


def _uses(document: Mapping[str, Any], title: str, names: Mapping[str, str]) -> Iterator[Use]:
    """Give the uses: as we have written them, or one for each message of another's operation."""
    for operation in _each(document, "operations"):
        ours = _part(operation, OURS)
        if "action" in ours:
            known: dict[str, Any] = {name: ours[name] for name in Use._fields if name in ours}
            yield require_use(known)
        elif "consumer" not in ours:
            action = Action.HANDLE if operation.get("action") == _RECEIVE else Action.SEND
            channel = _part(_part(document, "channels"), _last(operation.get("channel")))
            for key in [_last(one) for one in operation.get("messages", channel.get("messages", ()))]:
                yield Use(title, action, names.get(key, key))


def _last(reference: object) -> str:
    """Return the last part of a reference, or of a key."""
    text = str(reference.get("$ref", "")) if is_object(reference) else str(reference)
    return text.rpartition("/")[2]
