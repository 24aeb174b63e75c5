"""What the code that runs is about: the message or events that log lines concern, and whether a handler runs.

What a handler must not do asks here whether one does. Lines of a log ask here what they are about.

Invariant: tasks and threads that a handler starts count as the handler, as they see its context.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager


class Subject(Protocol):
    """What lines are about; `id` is a message's, `handler` the name of the one that runs or ran last."""

    id: str
    handler: str

    def fields(self) -> Mapping[str, object]:
        """Return what a log line says of it, by the names of its fields."""
        raise NotImplementedError

    def cause(self) -> Mapping[str, str]:
        """Return what a change of data says that it was caused by, by the names of the parts."""
        raise NotImplementedError


_message: ContextVar[Subject | None] = ContextVar("rowbus_message_in_hand", default=None)
_subject: ContextVar[Subject | None] = ContextVar("rowbus_subject", default=None)


class _SubjectScope:
    """Notes a subject for as long as it is entered: a class, which costs half of what a generator does."""

    __slots__ = ("_place", "_subject", "_token")

    _token: Token[Subject | None]

    def __init__(self, place: ContextVar[Subject | None], subject: Subject) -> None:
        self._place = place
        self._subject = subject

    def __enter__(self) -> None:
        self._token = self._place.set(self._subject)

    def __exit__(self, *_error: object) -> None:
        self._place.reset(self._token)


def handling(subject: Subject) -> AbstractContextManager[None]:
    """Note that handlers of a message run within."""
    return _SubjectScope(_message, subject)


def concerning(subject: Subject) -> AbstractContextManager[None]:
    """Note what the lines that are logged within are about, where no handler of a message runs."""
    return _SubjectScope(_subject, subject)


def subject_in_hand() -> Subject | None:
    """Return what the code that runs is about; None where it is about nothing."""
    return _message.get() or _subject.get()


def message_in_hand() -> str | None:
    """Return the id of the message whose handler runs; None outside of handlers."""
    subject = _message.get()
    return None if subject is None else subject.id


def fields_in_hand() -> Mapping[str, object]:
    """Return what a line that is logged now is about; empty where it is about nothing."""
    subject = subject_in_hand()
    return {} if subject is None else subject.fields()
