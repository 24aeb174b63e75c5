"""A saga's state as JSON in its row: how objects become text and back, through the versions of their class.

Invariant: what a row of an older version holds is upgraded step by step when it is read; a row of a newer version is
refused and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from rowbus.errors import ConfigurationError, SagaStateError
from rowbus.errors.exception_facts import text_of
from rowbus.messages.bodies.json_bodies import Json

if TYPE_CHECKING:
    from collections.abc import Mapping

S = TypeVar("S")

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the state of one version, as decoded JSON with Decimal numbers, into that of the next."""

_decoder = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


class StateForm(Generic[S]):
    """How the state of one saga class is written and read."""

    def __init__(self, kind: type[S], version: int, upgrades: Mapping[int, tuple[int, Upgrade]]) -> None:
        """Write this class as this version; `upgrades` lead from a version to a later one.

        Raises ConfigurationError for a class that cannot be read from JSON, and for an upgrade that leads nowhere.
        """
        self.kind = kind
        self.version = version
        self._upgrades = upgrades
        self._json = Json()
        self._read = self._json.reader(kind)
        for start, (end, _) in upgrades.items():
            if not start < end <= version:
                raise ConfigurationError(
                    f"upgrade({start}, {end}) of {kind.__name__}: it must lead to a later version, at most {version}."
                )

    def write(self, state: S) -> str:
        """Return a state's JSON; raises SagaStateError for an object that has none."""
        self._check(state)
        try:
            return self._json.write(state, (self.kind.__name__,)).decode()
        except Exception as error:
            raise SagaStateError(f"The state {self.kind.__name__} has no JSON: {text_of(error)}") from error

    def read(self, text: str, version: int) -> S:
        """Return the state that was written by a version; raises SagaStateError for what cannot be read."""
        if version > self.version:
            raise SagaStateError(
                f"its state is of version {version}, and this program knows {self.version}: it is older than the "
                "program that wrote it"
            )
        try:
            return cast("S", self._read(self._upgraded(text, version)))
        except Exception as error:
            raise SagaStateError(f"its state is not a {self.kind.__name__}: {text_of(error)}") from error

    def _check(self, state: S) -> None:
        if not isinstance(state, self.kind):
            raise SagaStateError(f"The state is no {self.kind.__name__} but a {type(state).__name__}.")

    def _upgraded(self, text: str, version: int) -> bytes:
        if version == self.version or version not in self._upgrades:
            return text.encode()
        data = _decoder.decode(text)
        while step := self._upgrades.get(version):
            version, upgrade = step
            data = upgrade(data)
        return _encoder.encode(data)
