"""The assignment of an endpoint's lanes to the processes that serve it.

Each process asks who there is, and takes the lanes that this rule gives it; so all come to the same without talking to
each other, and each lane moves once when a process comes or goes.

Invariant: pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Holder(NamedTuple):
    """The session that has a lane, by its number on the server, and the process of the endpoint that it is of."""

    pid: int
    process: int | None


class Survey(NamedTuple):
    """The processes that work on the lanes, in the order of their numbers, and who has which lane."""

    members: tuple[int, ...]
    holders: Mapping[int, Holder]


class Assignment(NamedTuple):
    """The lanes of one process, and the sessions that keep them from it though their process answers no more."""

    lanes: frozenset[int]
    stranded: tuple[int, ...]


def assign(survey: Survey, process: int, lanes: int) -> Assignment:
    """Return what a process is to have: every so many-th lane."""
    if process not in survey.members:
        return Assignment(frozenset(), ())
    place, members = survey.members.index(process), len(survey.members)
    own = frozenset(range(place, lanes, members))
    stranded = tuple(
        holder.pid
        for lane, holder in survey.holders.items()
        if lane in own and holder.process is not None and holder.process not in survey.members
    )
    return Assignment(own, stranded)
