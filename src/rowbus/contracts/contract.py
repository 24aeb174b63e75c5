"""A contract: which messages there are, what is in them, and who takes, sends and publishes them.

Invariant: values only, of texts and JSON; equal contracts are written as equal documents.
"""

from __future__ import annotations

import re
from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from rowbus.messages.conventions import Kind

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from datetime import datetime

Schema: TypeAlias = "Mapping[str, Any]"
"""A JSON Schema, draft 7; `{}` takes anything."""

ANYTHING: Schema = {}
_REFERENCE: Final = "#/components/schemas/"
_NOT_OF_KEYS: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Action(Enum):
    """The use that an endpoint makes of a message."""

    HANDLE = "handle"
    SEND = "send"
    PUBLISH = "publish"
    REPLY = "reply"


LEAVING: Final = (Action.SEND, Action.PUBLISH, Action.REPLY)
"""The actions of messages that leave an endpoint."""


class Party(NamedTuple):
    """An endpoint, the queue that it receives from, and the content type that it writes."""

    name: str
    queue: str
    content_type: str


class Message(NamedTuple):
    """A type of message: its name on the wire, what it is, what it can be handled as, too, and what is in its body."""

    name: str
    kind: Kind
    parents: tuple[str, ...] = ()
    payload: Schema = ANYTHING
    description: str = ""


class Use(NamedTuple):
    """An endpoint's use of a type of message.

    `to` is the queue that it is sent to, where that is known. A handler of a `saga` finds its row by the field
    `found_by`; a message of a `schedule` is sent at its ticks.
    """

    endpoint: str
    action: Action
    message: str
    to: str = ""
    is_subscribed: bool = False
    is_timeout: bool = False
    saga: str = ""
    found_by: str = ""
    schedule: str = ""


class LogReader(NamedTuple):
    """A consumer of a log."""

    log: str
    consumer: str


class Contract(NamedTuple):
    """The agreement of endpoints: who they are, their messages, and what each does with which.

    `schemas` are those of the messages and of the classes within, by the names that references have.
    """

    title: str
    parties: tuple[Party, ...] = ()
    messages: tuple[Message, ...] = ()
    uses: tuple[Use, ...] = ()
    schemas: Mapping[str, Schema] = {}
    readers: tuple[LogReader, ...] = ()

    def message(self, name: str) -> Message | None:
        """Return a type of message by its name on the wire."""
        return next((one for one in self.messages if one.name == name), None)

    def uses_by_message(self, *actions: Action) -> Mapping[str, Sequence[Use]]:
        """Return the uses of each type of message in these ways; of a type without any, none."""
        found = defaultdict[str, list[Use]](list)
        for use in self.uses_of_action(*actions):
            found[use.message].append(use)
        return found

    def uses_of_action(self, *actions: Action) -> tuple[Use, ...]:
        """Return who uses any message in one of these ways."""
        return tuple(use for use in self.uses if use.action in actions)

    def resolved(self, schema: Schema) -> Schema:
        """Return a schema, or the one that it refers to; what is not there takes anything."""
        seen: set[str] = set()
        while (key := key_of(schema)) and key not in seen:
            seen.add(key)
            schema = self.schemas.get(key, ANYTHING)
        return schema

    def keyed(self) -> tuple[dict[str, Schema], dict[str, Message]]:
        """Return all schemas, also objects that stand in messages, and the messages by the keys of theirs."""
        schemas, messages = dict(self.schemas), {key_of(one.payload): one for one in self.messages}
        for message in self.messages:
            if "properties" in message.payload:
                key = free_name(component_key(message.name), schemas)
                schemas[key], messages[key] = message.payload, message
        return schemas, messages


class PublishedContract(NamedTuple):
    """A version of an endpoint's contract; times are aware, by the database's clock."""

    endpoint: str
    version: str
    contract: Contract
    published: datetime
    seen: datetime


def component_key(name: str) -> str:
    """Return the key of a schema or a message of this name in a document, which has fewer characters."""
    return _NOT_OF_KEYS.sub("_", name).strip("_") or "_"


def free_name(name: str, taken: Container[str], mark: str = "_") -> str:
    """Return a name that is not taken: this one, or with a number after a mark."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}{mark}{number}"
    return found


def reference_to(key: str) -> dict[str, Any]:
    """Return what refers to a contract's schema."""
    return {"$ref": f"{_REFERENCE}{key}"}


def key_of(schema: Schema) -> str:
    """Return the key of the schema that this one refers to; empty for one that refers to none."""
    return str(schema.get("$ref", "")).removeprefix(_REFERENCE)
