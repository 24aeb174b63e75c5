"""The contract of endpoints and logs: what each of them tells of itself, put together.

Invariant: no I/O; nothing of an endpoint is changed; the same class has one schema, however many endpoints use it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rowbus.contracts.contract import Contract, LogReader, Message, Party, Use
from rowbus.contracts.schemas import Schemas
from rowbus.errors import ConfigurationError
from rowbus.messages.conventions import Kind
from rowbus.messages.message_types import DEFAULT, contract_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.bodies.shape import Names


@runtime_checkable
class Member(Protocol):
    """An endpoint, or a log with its consumers."""

    name: str

    def _describe(self, found: Collection) -> None:
        """Add what it tells of itself. No I/O."""


def describe(*members: Member, title: str = "") -> Contract:
    """Return the contract of endpoints, and of logs with their consumers; `title` is by default their names.

    Raises ConfigurationError for what is neither.
    """
    collected = Collection()
    for member in members:
        if not isinstance(member, Member):  # pyright: ignore[reportUnnecessaryIsInstance] - what users give
            raise ConfigurationError(f"{member!r} is neither a rowbus.Endpoint nor a rowbus.Log.")
        member._describe(collected)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - ours
    return collected.contract(title or ", ".join(member.name for member in members))


class Collection:
    """The parts of a contract, as several endpoints and logs add them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._readers: list[LogReader] = []
        self._parties: list[Party] = []
        self._uses: dict[Use, None] = {}
        self._messages: dict[str, Message] = {}
        self._schemas = Schemas()

    def contract(self, title: str) -> Contract:
        """Return the contract of all that was added."""
        messages = sorted(self._messages.values())
        schemas = dict(sorted(self._schemas.found.items()))
        parties, uses = tuple(self._parties), tuple(sorted(self._uses, key=_order))
        return Contract(title, parties, tuple(messages), uses, schemas, tuple(self._readers))

    def add_reader(self, log: str, consumer: str) -> None:
        """Add a consumer of a log."""
        self._readers.append(LogReader(log, consumer))

    def add_party(self, party: Party, serializer: Serializer, uses: Iterable[tuple[Use, Any]]) -> None:
        """Add an endpoint, and what it does with which messages: each with its class, or a handler's annotation."""
        self._parties.append(party)
        for use, kind in uses:
            self._uses.setdefault(use)
            self._note(use.message, kind, _names(serializer, kind))

    def _note(self, name: str, kind: Any, names: Names) -> None:  # noqa: ANN401 - any annotation of a handler
        """Add a type of message, unless it is known by its class already."""
        is_class = isinstance(kind, type) and kind not in {dict, bytes, object}
        known = self._messages.get(name)
        if known is not None and (known.payload or not is_class):
            return
        said = contract_of(kind) if is_class and contract_of(kind).name == name else None
        self._messages[name] = Message(
            name,
            Kind.MESSAGE if said is None else said.kind,
            () if said is None else said.parents,
            self._schemas.of_message(name, kind, names),
            _description(kind) if is_class else "",
        )


def _order(use: Use) -> tuple[str, ...]:
    return (use.endpoint, use.action.value, use.message, use.to, use.saga, use.schedule)


def _names(serializer: object, kind: Any) -> Names:  # noqa: ANN401 - any annotation of a handler
    """Return how a serializer names a class's fields; one of the user's own is taken to name them as the class does."""
    names: Callable[[Any], Names] = getattr(serializer, "names_of", None) or getattr(DEFAULT, "names_of")  # noqa: B009
    return names(kind)._replace(ignore_case=False)


def _description(kind: type) -> str:
    """Return the first paragraph of a class's docstring; not the one that dataclasses make up."""
    text = inspect.cleandoc(kind.__dict__.get("__doc__") or "").partition("\n\n")[0].replace("\n", " ")
    return "" if text.startswith(f"{kind.__name__}(") else text
