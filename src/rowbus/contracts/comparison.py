"""The breaks of a change of a contract, in either direction: old messages with new handlers, new ones with old.

Invariant: pure; a contract breaks nothing of itself; what only adds breaks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.contracts.contract import LEAVING, Action, Contract, Message, Use
from rowbus.contracts.refusals import Side, refusals
from rowbus.messages.conventions import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


class Break(NamedTuple):
    """A break: of which message or endpoint, and how."""

    subject: str
    text: str

    def __str__(self) -> str:
        """Give it as a line."""
        return f"{self.subject}: {self.text}"


def compare(old: Contract, new: Contract) -> list[Break]:
    """Return what breaks when programs of `old` and of `new` run side by side, or read each other's messages."""
    found = [
        *_parties(old, new),
        *_handled(old, new),
        *_left(old, new, Action.PUBLISH),
        *_left(old, new, Action.REPLY),
        *_sagas(old, new),
        *(one for message in old.messages for one in _message(message, old, new)),
    ]
    return list(dict.fromkeys(found))


def _parties(old: Contract, new: Contract) -> Iterator[Break]:
    now = {party.name: party for party in new.parties}
    for party in old.parties:
        other = now.get(party.name)
        if other is None:
            continue
        if other.queue != party.queue:
            yield Break(party.name, f"receives from {other.queue} now: old senders send to {party.queue}")
        if other.content_type != party.content_type:
            yield Break(
                party.name, f"writes {other.content_type} now, and {party.content_type} is what was read"
            )


def _handled(old: Contract, new: Contract) -> Iterator[Break]:
    """Give the messages that an endpoint no longer takes: commands, replies, timeouts. An event is no longer wanted."""
    now = {(use.endpoint, use.message) for use in new.uses_of_action(Action.HANDLE)}
    for use in old.uses_of_action(Action.HANDLE):
        taken = [use.message, *_parents(old, use.message), *_parents(new, use.message)]
        if use.is_subscribed or any((use.endpoint, name) in now for name in taken):
            continue
        what = "timeouts that wait come to nobody" if use.is_timeout else "what is sent to it comes to nobody"
        yield Break(use.message, f"{use.endpoint} no longer handles it{_renamed(old, new, use)}: {what}")


def _left(old: Contract, new: Contract, action: Action) -> Iterator[Break]:
    """Give the events that nobody publishes any more, or the replies that an endpoint no longer gives."""
    told = {Action.PUBLISH: ("published", "subscribers"), Action.REPLY: ("replied", "who asked")}
    done, waiting = told[action]
    for use in old.uses_of_action(action):
        is_left = any(
            use.message in {one.message, *_parents(new, one.message)}
            and (action is Action.PUBLISH or one.endpoint == use.endpoint)
            for one in new.uses_of_action(action)
        )
        if not is_left and not _has_changed_kind(old, new, use.message):
            name = "" if action is Action.PUBLISH else f" by {use.endpoint}"
            yield Break(
                use.message, f"is no longer {done}{name}{_renamed(old, new, use)}: {waiting} wait for it"
            )


def _has_changed_kind(old: Contract, new: Contract, name: str) -> bool:
    before, after = old.message(name), new.message(name)
    return before is not None and after is not None and before.kind is not after.kind


def _sagas(old: Contract, new: Contract) -> Iterator[Break]:
    now = {(use.endpoint, use.message): use for use in new.uses_of_action(Action.HANDLE)}
    for use in old.uses_of_action(Action.HANDLE):
        other = now.get((use.endpoint, use.message))
        if other is None or not use.saga:
            continue
        if other.saga != use.saga:
            yield Break(use.message, f"goes to {other.saga or 'no saga'} now: {use.saga} goes on without it")
        elif other.found_by != use.found_by:
            before, after = use.found_by or "the saga's id", other.found_by or "the saga's id"
            yield Break(
                use.message, f"finds {use.saga} by {after} now: those that go on are found by {before}"
            )


def _message(message: Message, old: Contract, new: Contract) -> Iterator[Break]:
    other = new.message(message.name)
    if other is None:
        return
    if _has_changed_kind(old, new, message.name):
        yield Break(message.name, f"is {_a(other)} now, and was {_a(message)}: it travels another way")
    leaves = any(use.message == message.name for use in new.uses_of_action(*LEAVING))
    comes = any(use.message == message.name for use in new.uses_of_action(Action.HANDLE))
    lost = [name for name in message.parents if name not in other.parents]
    if lost and (leaves or not comes):
        yield Break(
            message.name,
            f"is no {' and no '.join(lost)} any more: their subscribers do not get it",
        )
    before, after = Side(old, message.payload), Side(new, other.payload)
    if comes or not leaves:
        for misfit in refusals(after, before, writes_all=False):
            yield Break(message.name, f"new handlers refuse old messages: {misfit}")
    if leaves or not comes:
        for misfit in refusals(before, after, writes_all=True):
            yield Break(message.name, f"old handlers refuse new messages: {misfit}")


def _a(message: Message) -> str:
    return f"{'an' if message.kind is Kind.EVENT else 'a'} {message.kind.value}"


def _parents(contract: Contract, name: str) -> tuple[str, ...]:
    found = contract.message(name)
    return () if found is None else found.parents


def _renamed(old: Contract, new: Contract, use: Use) -> str:
    """Say what a type of message is probably called now: a new one, used in the same way, that has the same body."""
    before = old.message(use.message)
    body = None if before is None else old.resolved(before.payload)
    names = {one.message for one in new.uses_of_action(use.action) if one.endpoint == use.endpoint}
    likely = [one for one in new.messages if one.name in names and old.message(one.name) is None]
    same = [one.name for one in likely if body and new.resolved(one.payload) == body]
    return f" (it is called {same[0]} now?)" if same else ""
