"""A JSON Schema of others as a contract: one type of message, of which nothing is known but its body.

Invariant: pure; references to definitions lead to the contract's schemas.
"""

from __future__ import annotations

from typing import Any, Final

from rowbus.contracts.contract import Contract, Message, component_key, reference_to
from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.shape import is_list, is_object
from rowbus.messages.conventions import Kind

_DEFINITIONS: Final = ("$defs", "definitions")
_LATER: Final = {"prefixItems": "items"}
"""Words of newer drafts, and draft 7's for them."""


def from_json_schema(document: object, name: str = "") -> Contract:
    """Return a contract of the one message that a JSON Schema describes; its name is by default the schema's title.

    Raises ConfigurationError for what is no schema of an object, or has no name.
    """
    if not is_object(document) or "properties" not in document:
        raise ConfigurationError("This is neither an AsyncAPI document nor the JSON Schema of an object.")
    known = name or str(document.get("title", ""))
    if not known:
        raise ConfigurationError("The JSON Schema has no title: say what the message is called.")
    parts: dict[str, Any] = {}
    for word in _DEFINITIONS:
        parts |= document.get(word, {})
    schemas = {component_key(key): _moved(one) for key, one in parts.items()}
    own = {word: value for word, value in document.items() if word not in _DEFINITIONS}
    key = component_key(known)
    message = Message(known, Kind.MESSAGE, (), reference_to(key), str(document.get("description", "")))
    return Contract(known, (), (message,), (), {key: _moved(own), **schemas})


def _moved(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a schema with its references where a contract has them."""
    if is_list(schema):
        return [_moved(one) for one in schema]
    if not is_object(schema):
        return schema
    moved = {_LATER.get(word, word): _moved(one) for word, one in schema.items()}
    if "$ref" in moved:
        moved |= reference_to(component_key(str(moved["$ref"]).rpartition("/")[2]))
    return moved
