"""The answer of a request: what a received message is to who asked.

Invariant: pure; an answer of another kind than was asked for is an error that names both.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from rowbus.errors import MessageDeserializationError
from rowbus.errors.exception_facts import text_of
from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.messages.message_types import Deserializer, contract_of, with_parents
from rowbus.messages.return_code import return_code_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.messages.bodies.serializer import Serializers


class AnswerReader:
    """Reads the answers of one kind: a message class, `dict`, `bytes`, `int`, or an enum whose values are numbers."""

    def __init__(self, kind: Any, serializers: Serializers) -> None:  # noqa: ANN401 - what the user asks for
        """Read as `kind`. Raises ConfigurationError for a class without a reader."""
        self.kind = kind
        self.is_number = isinstance(kind, type) and issubclass(kind, (int, Enum))
        self.name = _name_of(kind)
        self._read = None if self.is_number else Deserializer(kind, self.name, serializers)

    def __call__(self, headers: Mapping[str, str | None], body: bytes) -> Any:  # noqa: ANN401 - of the kind
        """Return the answer; raises MessageDeserializationError."""
        code = return_code_of(headers)
        if self._read is None:
            return self._number(None if code is None else code.code, headers)
        if code is not None:
            raise self._other(f"the number {code.code}")
        types = parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))
        if self.kind not in {dict, bytes, object} and types and self.name not in with_parents(types):
            raise self._other(" or ".join(types))
        return self._read(body, headers.get(Header.CONTENT_TYPE))

    def _number(self, code: int | None, headers: Mapping[str, str | None]) -> Any:  # noqa: ANN401 - of the kind
        if code is None:
            raise self._other(headers.get(Header.ENCLOSED_MESSAGE_TYPES) or "a message without a type")
        try:
            return self.kind(code)
        except ValueError as error:
            raise MessageDeserializationError(
                f"The answer is the number {code}, which is no {self.name}: {text_of(error)}",
                type_name=self.name,
            ) from error

    def _other(self, came: str) -> MessageDeserializationError:
        return MessageDeserializationError(
            f"The answer is {came}, not {self.name}: ask for what the handler replies.", type_name=self.name
        )


def _name_of(kind: Any) -> str:  # noqa: ANN401 - what the user asks for
    if isinstance(kind, type) and kind not in {dict, bytes, object, int}:
        return contract_of(kind).name
    return getattr(kind, "__name__", str(kind))
