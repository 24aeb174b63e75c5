"""Conflicts between endpoints that run: one sends what another's handler refuses.

Invariant: pure; an endpoint is not in conflict with itself, but for another version of it.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.contracts.contract import LEAVING, Action
from rowbus.contracts.refusals import Side, refusals
from rowbus.transport.queues.diagnosis import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowbus.contracts.contract import Contract, PublishedContract, Use

_ADVICE: Final = (
    "make the handler take both (`rowbus contracts check` says what fits), deploy it, and then the sender; what failed "
    "meanwhile is in the error queue"
)
_APART: Final = (
    "two programs serve its queue, and each receives what only the other handles, which fails: give each an endpoint, "
    "or both all handlers; while one replaces the other, wait until it has"
)
_DOES: Final = {Action.SEND: "sends", Action.PUBLISH: "publishes", Action.REPLY: "replies with"}


class Conflict(NamedTuple):
    """A message that does not fit its handler: who sends it and who handles it, and which fields do not fit."""

    message: str
    handler: str
    sender: str
    misfits: tuple[str, ...]

    @property
    def text(self) -> str:
        """Say it as a sentence about the message."""
        return f"{self.handler} handles it, and {self.sender} another: {'; '.join(self.misfits)}"


def find_conflicts(found: Sequence[PublishedContract]) -> list[Conflict]:
    """Return what endpoints send each other, and their handlers refuse; each once."""
    names = [one.endpoint for one in found]
    pairs = ((sender, handler) for sender in found for handler in found if sender is not handler)
    return list(dict.fromkeys(one for pair in pairs for one in _between(*pair, names)))


def find_conflicts_with(one: PublishedContract, others: Sequence[PublishedContract]) -> list[Conflict]:
    """Return what one endpoint and others send each other, and their handlers refuse; each once."""
    names = [one.endpoint, *(each.endpoint for each in others)]
    pairs = (pair for each in others for pair in ((one, each), (each, one)))
    return list(dict.fromkeys(found for pair in pairs for found in _between(*pair, names)))


def _between(
    sender: PublishedContract, handler: PublishedContract, names: Sequence[str]
) -> Iterator[Conflict]:
    for use, misfits in _refused(sender.contract, handler.contract):
        told = f"{_named(sender, names)} {_DOES[use.action]}"
        yield Conflict(use.message, _named(handler, names), told, misfits)


def _named(one: PublishedContract, names: Sequence[str]) -> str:
    """Name an endpoint, with its version where several are there."""
    return f"{one.endpoint} (version {one.version})" if names.count(one.endpoint) > 1 else one.endpoint


def _refused(sender: Contract, handler: Contract) -> Iterator[tuple[Use, tuple[str, ...]]]:
    written, known = ({one.name: one for one in each.messages} for each in (sender, handler))
    taken = handler.uses_by_message(Action.HANDLE)
    for use in sender.uses_of_action(*LEAVING):
        sent = written.get(use.message)
        if sent is None or not _reaches(use, handler):
            continue
        for name in (use.message, *sent.parents):
            if not _takes(use, taken[name]) or (read := known.get(name)) is None:
                continue
            found = refusals(Side(handler, read.payload), Side(sender, sent.payload), writes_all=True)
            if found:
                yield use, tuple(map(str, found))


def _reaches(use: Use, handler: Contract) -> bool:
    return not use.to or any(party.queue == use.to for party in handler.parties)


def _takes(use: Use, taken: Iterable[Use]) -> bool:
    return any(one.is_subscribed or use.action is not Action.PUBLISH for one in taken)


def diagnose_different_programs(found: Sequence[PublishedContract]) -> Iterator[Finding]:
    """Tell of programs that serve one endpoint, of which each handles what the other does not.

    A version that handles more than the one it replaces is no such program.
    """
    handled = [(one, {use.message for use in one.contract.uses_of_action(Action.HANDLE)}) for one in found]
    for (one, ours), (other, theirs) in combinations(handled, 2):
        if one.endpoint == other.endpoint and ours - theirs and theirs - ours:
            yield Finding(
                Level.WARN,
                one.endpoint,
                f"{_alone(one, ours - theirs)}, {_alone(other, theirs - ours)}",
                _APART,
            )


def _alone(one: PublishedContract, messages: Iterable[str]) -> str:
    return f"version {one.version} alone handles {', '.join(sorted(messages))}"


def diagnose_conflicts(conflicts: Iterable[Conflict]) -> list[Finding]:
    """Return what the doctor says of conflicts: a line each."""
    return [Finding(Level.WARN, one.message, one.text, _ADVICE) for one in conflicts]
