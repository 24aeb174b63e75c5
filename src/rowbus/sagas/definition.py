"""The class of a saga, checked when it is made: its types, its rules, the form of its state.

Invariant: what is wrong with a saga is said here, before any message comes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_type_hints

from rowbus.endpoint.context import MessageContext
from rowbus.errors import ConfigurationError
from rowbus.messages.message_types import contract_of
from rowbus.running.functions import Contexts, check_context, takes_context
from rowbus.sagas.context import SagaContext
from rowbus.sagas.history.table import Keeping
from rowbus.sagas.key import Key
from rowbus.sagas.nservicebus.table import NServiceBusForm, correlation_of
from rowbus.sagas.state import StateForm, Step

if TYPE_CHECKING:
    from rowbus.sagas.nservicebus.table import Correlation

CONTEXTS: Final = Contexts(SagaContext, SagaContext, MessageContext)
Layout = Literal["rowbus", "nservicebus"]
"""The layout of a saga's row: Rowbus's own, or that of NServiceBus.Persistence.Sql."""

MARK: Final = "__rowbus_saga_rules__"
"""Attribute of a method: what it is for."""

_REST: Final = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}

UPGRADE: Final = "__rowbus_saga_upgrade__"
"""Attribute of a function: from which version to which it leads."""


class Role(Enum):
    """The purpose of a method of a saga."""

    START = "starts"
    HANDLE = "handles"
    TIMEOUT = "timeout"
    NOT_FOUND = "not_found"


class Rule(NamedTuple):
    """One method for one type of message; `by` says how the message finds its saga, None: by the saga's id alone.

    `takes_context`, whether the method wants the context, is known of a rule that is `checked`.
    """

    role: Role
    kind: type
    by: Callable[[Any], object] | str | None
    method: Callable[..., Any]
    takes_context: bool = False
    is_given_more: bool = False
    """Whether the method takes what an endpoint provides, all by name."""
    is_finder: bool = False
    """Whether `by` is an `async def` that takes the context, too, and may look into the database."""

    @property
    def name(self) -> str:
        """The method as failures name it."""
        return f"{self.method.__module__}.{self.method.__qualname__}"


class Rules(NamedTuple):
    """The methods for one type of message: as a message, and as a timeout."""

    message: Rule | None
    timeout: Rule | None

    @property
    def name(self) -> str:
        """The name in failures: the one for messages, if there is one."""
        return next(rule.name for rule in self if rule is not None)

    @property
    def found_by(self) -> str:
        """The message's fields by which its saga is found, as far as its rule names them; empty: by the saga's id."""
        by = None if self.message is None else self.message.by
        if by is None or isinstance(by, str):
            return by or ""
        code = getattr(by, "__code__", None)
        return ", ".join(code.co_names) if code is not None else ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A saga: its type on the wire, the form of its state, its methods by the type of message."""

    name: str
    """The type on the wire, which may go on with `, Assembly`."""

    form: StateForm[Any]
    rules: Mapping[type, Rules]
    not_found: Rule | None
    key: Key | None
    """The state's field that holds the value by which the saga is found."""

    keeping: Keeping
    """The table of what it did."""

    shared: Correlation | None = None
    """The way to find its rows in NServiceBus's layout; None: they are in Rowbus's."""

    @property
    def full_name(self) -> str:
        """The type on the wire without its assembly."""
        return self.name.partition(",")[0].strip()

    @property
    def short_name(self) -> str:
        """The last part of the type's name: what its table is called."""
        return self.full_name.rpartition(".")[2].rpartition("+")[2]

    def new_state(self, value: object) -> object:
        """Return the state a saga begins with."""
        return self.form.kind(**({} if self.key is None else {self.key.name: value}))


def define(
    saga: type,
    kind: type,
    *,
    name: str | None,
    correlation: str | None,
    version: int,
    keeping: Keeping,
    layout: Layout,
) -> Definition:
    """Read a saga's class; raises ConfigurationError saying what is wrong with it."""
    rules = [checked(saga, rule) for rule in _marks(saga)]
    if not any(rule.role is Role.START for rule in rules):
        raise ConfigurationError(f"{saga.__name__} never begins: declare a method with rowbus.starts.")
    form = _form(saga, kind, version, layout)
    shared = correlation_of(saga.__name__, kind, correlation) if layout == "nservicebus" else None
    _check_new_state(saga, kind, correlation)
    return Definition(
        name or contract_of(saga).name,
        form,
        {each: _rules_for(saga, each, rules) for each in dict.fromkeys(_kinds(rules))},
        next((rule for rule in rules if rule.role is Role.NOT_FOUND), None),
        None if correlation is None else Key(saga.__name__, kind, correlation),
        keeping,
        shared,
    )


def _form(saga: type, kind: type, version: int, layout: str) -> StateForm[Any]:
    """Return how the state is written; raises ConfigurationError for a layout that is none, or has no versions."""
    steps = list(_steps(saga))
    if layout == "rowbus":
        return StateForm(kind, version, steps)
    if layout != "nservicebus":
        raise ConfigurationError(
            f'{saga.__name__}: layout={layout!r} is none; give "nservicebus" or leave it out.'
        )
    if version != 1 or steps:
        raise ConfigurationError(
            f"{saga.__name__}: NServiceBus's rows have no version that an upgrade could begin at: leave out version= "
            "and upgrade, and give new fields of the state defaults."
        )
    return NServiceBusForm(kind)


def checked(saga: type, rule: Rule) -> Rule:
    """Return a rule that knows how to call its method; raises ConfigurationError if a message cannot be given to it."""
    called = f"{saga.__name__}.{rule.method.__name__}"
    if not inspect.iscoroutinefunction(rule.method):
        raise ConfigurationError(f"{called} must be an `async def`: a saga's methods run on the event loop.")
    for parameter in [*inspect.signature(rule.method).parameters][2:]:
        check_context(rule.method, parameter, CONTEXTS)
    more = _takes_more(rule.method)
    with_context = not more and takes_context(rule.method, "self", "message")
    if not isinstance(rule.kind, type):  # pyright: ignore[reportUnnecessaryIsInstance] - not all check types
        raise ConfigurationError(f"{called}: {rule.kind!r} is not a message class.")
    return rule._replace(takes_context=with_context, is_given_more=more)


def _takes_more(method: Callable[..., Any]) -> bool:
    """Say whether a method needs more than the message and a context, and says of what type that is."""
    hints: dict[str, Any] = {}
    with suppress(NameError):  # of a type that is imported for checkers alone
        hints = get_type_hints(method)
    beyond = list(inspect.signature(method).parameters.values())[2:]
    needed = [one.name for one in beyond if one.default is one.empty and one.kind not in _REST]
    more = [name for name in needed if name != "context" and not _is_context(hints.get(name))]
    return bool(more) and all(name in hints for name in more)


def _is_context(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, MessageContext)


def _marks(saga: type) -> Iterator[Rule]:
    for name in dir(saga):
        yield from getattr(getattr(saga, name, None), MARK, ())


def _steps(saga: type) -> Iterator[Step]:
    for name in dir(saga):
        function = getattr(saga, name, None)
        if function is not None and (versions := getattr(function, UPGRADE, None)):
            start, end = versions
            yield Step(start, end, function)


def _kinds(rules: list[Rule]) -> Iterator[type]:
    return (rule.kind for rule in rules if rule.role is not Role.NOT_FOUND)


def _rules_for(saga: type, kind: type, rules: list[Rule]) -> Rules:
    of_kind = [rule for rule in rules if rule.kind is kind and rule.role is not Role.NOT_FOUND]
    messages = [rule for rule in of_kind if rule.role is not Role.TIMEOUT]
    timeouts = [rule for rule in of_kind if rule.role is Role.TIMEOUT]
    for found in (messages, timeouts):
        if len(found) > 1:
            names = " and ".join(rule.method.__name__ for rule in found)
            raise ConfigurationError(f"{saga.__name__} has two methods for {kind.__name__}: {names}.")
    return Rules(messages[0] if messages else None, timeouts[0] if timeouts else None)


def _check_new_state(saga: type, kind: type, correlation: str | None) -> None:
    """Raise ConfigurationError for a state that cannot be made when the saga begins."""
    required = _required(kind)
    if correlation is not None and correlation not in _names(kind):
        raise ConfigurationError(f"{saga.__name__}: {kind.__name__} has no field {correlation!r}.")
    if missing := required - {correlation}:
        raise ConfigurationError(
            f"{saga.__name__}: the state {kind.__name__} is made when the saga begins, so each field needs a default; "
            f"{', '.join(sorted(missing))} has none. The field that the saga is found by may go without: "
            f'class {saga.__name__}(rowbus.Saga[{kind.__name__}], correlation="…").'
        )


def _names(kind: type) -> set[str]:
    return {name for name, _ in _fields(kind)}


def _required(kind: type) -> set[str]:
    return {name for name, has_default in _fields(kind) if not has_default}


def _fields(kind: Any) -> Iterator[tuple[str, bool]]:  # noqa: ANN401 - a class of any library
    """Give the fields of a state class, and whether each has a default."""
    if is_dataclass(kind):
        for field in fields(kind):
            has_default = field.default is not MISSING or field.default_factory is not MISSING
            yield field.name, has_default or not field.init
    elif hasattr(kind, "model_fields"):
        yield from ((name, not field.is_required()) for name, field in kind.model_fields.items())
    else:
        names, defaults = getattr(kind, "__struct_fields__", ()), getattr(kind, "__struct_defaults__", ())
        required = len(names) - len(defaults)
        yield from ((name, position >= required) for position, name in enumerate(names))
