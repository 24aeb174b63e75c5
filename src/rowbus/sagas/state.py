"""A saga's state as JSON in its row: how objects become text and back, through the versions of their class.

Invariants: what a row of an older version holds is upgraded step by step when it is read; a row of a newer version is
refused and stays as it is; no row is read as a version that it is not: a version without an upgrade only adds fields,
and one that an upgrade passes over has an upgrade of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import inspect

from rowbus.errors import ConfigurationError, SagaStateError, SagaVersionError
from rowbus.errors.strangers import text_of
from rowbus.messages.bodies.json_bodies import Json
from rowbus.messages.bodies.shape import types_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


S = TypeVar("S")

_PLAIN: Final = {
    inspect.AnyType,
    inspect.BoolType,
    inspect.BytesType,
    inspect.DataclassType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.DecimalType,
    inspect.DictType,
    inspect.EnumType,
    inspect.FloatType,
    inspect.IntType,
    inspect.ListType,
    inspect.NoneType,
    inspect.StrType,
    inspect.TimeDeltaType,
    inspect.TimeType,
    inspect.UUIDType,
    inspect.UnionType,
}
"""Types whose values are read from text if msgspec converts them."""
_KEPT: Final = (Decimal, datetime, date, time, timedelta, UUID, bytes)
_decoder = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the state of one version, as decoded JSON with Decimal numbers, into that of a later one."""


class StateForm(Generic[S]):
    """The written form of the state of one saga class."""

    def __init__(self, kind: type[S], version: int, steps: Sequence[Step]) -> None:
        """Write this class as this version; `steps` lead from a version to a later one.

        Raises ConfigurationError for a class that cannot be read from JSON, and for a version without a way here.
        """
        check_steps(kind, version, steps)
        self.kind = kind
        self.version = version
        self._steps = steps
        self._json = Json()
        self._read = self._json.reader(kind)
        self._is_plain = types_within(cast("type", kind)) <= _PLAIN

    def write(self, state: S) -> str:
        """Return a state's JSON; raises SagaStateError for an object that has none."""
        self._check(state)
        try:
            return self._json.write(state, (self.kind.__name__,)).decode()
        except Exception as error:
            raise SagaStateError(f"The state {self.kind.__name__} has no JSON: {text_of(error)}") from error

    def write_over(self, before: str, state: S) -> str:  # noqa: ARG002 - for forms that hold more than Python does
        """Return a state's JSON for a row that has this text; raises SagaStateError as `write` does."""
        return self.write(state)

    def read(self, text: str, version: int) -> S:
        """Return the state that was written by a version.

        Raises SagaStateError for what cannot be read, SagaVersionError for a version that is newer than this program's.
        """
        if version > self.version:
            raise SagaVersionError(
                f"its state is of version {version}, and this program knows {self.version}: it is older than the "
                "program that wrote it"
            )
        try:
            return cast("S", self._read(self._upgraded(text, version)))
        except Exception as error:
            raise SagaStateError(f"its state is not a {self.kind.__name__}: {text_of(error)}") from error

    def read_again(self, state: S, text: str) -> S:
        """Return a state as the next message will have it, given what was written of it; raises SagaStateError.

        Its values tell as well whether each has its field's type, at half the cost of reading the text, and at a
        hundredth of that of .NET's forms. What they leave in doubt is read.
        """
        if self._is_plain:
            with suppress(TypeError, ValueError):
                return msgspec.convert(msgspec.to_builtins(state, builtin_types=_KEPT), self.kind)
        return self.read(text, self.version)

    def _check(self, state: S) -> None:
        if not isinstance(state, self.kind):
            raise SagaStateError(f"The state is no {self.kind.__name__} but a {type(state).__name__}.")

    def _upgraded(self, text: str, version: int) -> bytes:
        steps = () if version == self.version else tuple(way(self._steps, version))
        if not steps:
            return text.encode()
        data = _decoder.decode(text)
        for step in steps:
            data = step.upgrade(data)
        return _encoder.encode(data)


class Step(NamedTuple):
    """An upgrade, and from which version to which it leads."""

    start: int
    end: int
    upgrade: Upgrade

    @property
    def name(self) -> str:
        """The upgrade as it is declared."""
        return f"upgrade({self.start}, {self.end})"


def way(steps: Sequence[Step], version: int) -> Iterator[Step]:
    """Go through the steps that lead from a version to the newest, in their order.

    A version without a step differs from the next by fields with defaults, so the first step that begins later applies.
    """
    while later := [step for step in steps if step.start >= version]:
        step = min(later)
        yield step
        version = step.end


def check_steps(kind: type, version: int, steps: Sequence[Step]) -> None:
    """Raise ConfigurationError for steps to nowhere, and for rows that have no sound way to this version."""
    starts = {step.start for step in steps}
    if len(starts) < len(steps):
        raise ConfigurationError(
            f"{', '.join(step.name for step in steps)} of {kind.__name__}: two begin at the same version."
        )
    for step in steps:
        if not step.start < step.end <= version:
            raise ConfigurationError(
                f"{step.name} of {kind.__name__}: it must lead to a later version, at most {version}."
            )
        _check_passed_over(kind, step, starts)


def _check_passed_over(kind: type, step: Step, starts: set[int]) -> None:
    """Raise ConfigurationError if rows of a version between the two of a step would be read as they are."""
    last = step.end - 1
    if last not in starts:
        raise ConfigurationError(
            f"{step.name} of {kind.__name__} passes over version {last}, whose rows have no way to {step.end}: declare "
            f"upgrade({last}, {step.end}) as well."
        )
