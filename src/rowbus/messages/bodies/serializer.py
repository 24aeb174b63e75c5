"""Serializers, which turn message objects into bodies and back, and the choice of one by content type.

Invariant: the first serializer of an endpoint is its main one: it writes, and reads what no other one is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rowbus.errors import ConfigurationError
from rowbus.running.functions import check_function
from rowbus.running.setting_types import require_type

Read = Callable[[bytes], object]
"""Makes an object of a body; raises any error for one that does not fit."""


class Serializer(Protocol):
    """Bodies of one format. Implement it for a format of your own."""

    @property
    def content_types(self) -> Sequence[str]:
        """The content types that it reads, in lower case and without parameters; the first is the one it writes."""
        raise NotImplementedError

    def write(self, message: object, types: tuple[str, ...], /) -> bytes:
        """Return the body of a message whose wire names are `types`; raises any error for what it cannot write."""
        raise NotImplementedError

    def reader(self, kind: type, /) -> Read:
        """Return what reads bodies as objects of a class; raises ConfigurationError for classes it cannot make."""
        raise NotImplementedError


class Serializers:
    """An endpoint's serializers, by content type."""

    def __init__(self, serializers: Sequence[Serializer]) -> None:
        """Take the main one first.

        Raises ConfigurationError for none, for one without content types or two of one, and for methods that are
        `async def`s.
        """
        require_type(
            "serializers", serializers, Sequence | None, "a sequence of them, such as [rowbus.Json()]"
        )
        if not serializers:
            raise ConfigurationError(
                "serializers is empty: give at least the main one, such as rowbus.Json()."
            )
        self.main = serializers[0]
        self._by_type: dict[str, Serializer] = {}
        for serializer in serializers:
            check_serializer(serializer)
            check_function(serializer.write, "The serializer's method", "message", "types")
            check_function(serializer.reader, "The serializer's method", "kind")
            for content_type in serializer.content_types:
                if self._by_type.setdefault(content_type, serializer) is not serializer:
                    raise ConfigurationError(f"Two serializers are for the content type {content_type}.")

    def chosen(self, content_type: str | None) -> Serializer:
        """Return the serializer for a content type, whose case and parameters do not count; else the main one."""
        return self._by_type.get(essence(content_type), self.main)

    def knows(self, content_type: str | None) -> bool:
        """Say whether a content type is one of theirs, or left out."""
        return not content_type or essence(content_type) in self._by_type


def check_serializer(serializer: Serializer) -> None:
    """Raise ConfigurationError for one whose content types are not a sequence of at least one."""
    types = getattr(serializer, "content_types", None)
    if isinstance(types, str) or not types:
        raise ConfigurationError(
            f"The content_types of {type(serializer).__name__} are {types!r}: give them as a tuple, the one it writes "
            'first, such as ("application/json",).'
        )


def essence(content_type: str | None) -> str:
    """Return a content type without its parameters, in lower case."""
    return (content_type or "").partition(";")[0].strip().lower()
