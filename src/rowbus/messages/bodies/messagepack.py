"""MessagePack bodies, converted by msgspec: decimals and spans are text, as in its JSON.

Of an aware time the instant stays, and not the offset.

Invariant: a body is data; extension types of MessagePack are not read as objects.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rowbus.messages.bodies.fit import maker
from rowbus.messages.bodies.plain import plain
from rowbus.messages.bodies.readability import refuse_unreadable
from rowbus.messages.bodies.serializer import Read
from rowbus.messages.bodies.shape import AS_THEY_ARE, has_models

MESSAGEPACK: Final = "application/x-msgpack"


class MessagePack:
    """MessagePack bodies, objects as maps by the names of their fields: a serializer."""

    content_types = (MESSAGEPACK, "application/vnd.msgpack", "application/msgpack", "messagepack")

    def write(self, message: object, types: tuple[str, ...] = (), /) -> bytes:  # noqa: ARG002 - the protocol's
        """Return an object as MessagePack; raises TypeError or ValueError for what has none."""
        kind: type = type(message)
        return msgspec.msgpack.encode(plain(message, AS_THEY_ARE) if has_models(kind) else message)

    def reader(self, kind: type, /) -> Read:
        """Return what reads bodies as a dataclass, struct, pydantic model or dict."""
        refuse_unreadable(kind, AS_THEY_ARE)
        if has_models(kind):
            decode = msgspec.msgpack.Decoder().decode
            make = maker(kind, AS_THEY_ARE)
            return lambda body: make(decode(body))
        return msgspec.msgpack.Decoder(dict[str, Any] if kind is dict else kind).decode
