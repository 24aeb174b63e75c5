"""Searches of failed messages, and groups of them: what is meant, and in what order it is shown.

Invariant: pure. A search means the same messages whether they are listed, counted, sent back or discarded.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.transport.recoverability.failed_message import ALL, FailedMessage, Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowbus.messages.address import QueueAddress

KEY_LENGTH: Final = 16


class Kind:
    """What the messages of a group have in common, as `rowbus errors` groups them; compared by identity."""

    __slots__ = ("__weakref__", "exception", "failed_queue", "is_readable", "key", "type")

    def __init__(
        self, exception: str, type_name: str, failed_queue: QueueAddress | None, *, is_readable: bool
    ) -> None:
        """Take what is the same; `key` stands for it in addresses."""
        self.exception = exception
        self.type = type_name
        self.failed_queue = failed_queue
        self.is_readable = is_readable
        said = "\0".join((exception, type_name, str(failed_queue or ""), str(is_readable)))
        self.key = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:KEY_LENGTH]

    def sample(self) -> FailedMessage:
        """Return a message that has nothing else."""
        return FailedMessage(
            "",
            0,
            "",
            self.type,
            self.exception,
            "",
            self.failed_queue,
            None,
            "",
            is_readable=self.is_readable,
        )


class Failure(NamedTuple):
    """A failed message and its kind."""

    seq: int
    failed: FailedMessage
    kind: Kind


class Search(NamedTuple):
    """Which failed messages are meant: those that fit everything that is given; nothing given means all.

    `selection` is as of the commands; `conversation` is an id; `group` is the key of a kind; `text` is anywhere in the
    headers or the body, letter for letter, or is the id of a row. Only the database can tell of `text`.
    """

    selection: Selection = ALL
    conversation: str = ""
    group: str = ""
    text: str = ""

    def among(self, failures: Iterable[Failure]) -> Iterator[Failure]:
        """Give those that fit, `text` aside, in the order given; each kind is judged once."""
        meant = _Kinds(self)
        alone = self.selection._replace(exceptions=frozenset(), types=frozenset(), failed_queue=None)
        judges = alone != ALL
        for failure in failures:
            if not meant[failure.kind]:
                continue
            if judges and not alone.fits(failure.failed):
                continue
            if self.conversation and failure.failed.conversation != self.conversation:
                continue
            yield failure


class _Kinds(dict[Kind, bool]):
    """Which kinds a search means."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        self._group = search.group
        self._selection = search.selection._replace(ids=frozenset(), since=None, until=None)

    def __missing__(self, kind: Kind) -> bool:
        fits = self._group in {"", kind.key} and self._selection.fits(kind.sample())
        self[kind] = fits
        return fits


class Group(NamedTuple):
    """Failed messages of one kind: how many, the first and the last of them."""

    kind: Kind
    size: int
    first: FailedMessage
    latest: FailedMessage


def groups(failures: Sequence[Failure]) -> list[Group]:
    """Count messages, given the newest first, by kind: the largest group first, of equals the latest."""
    sizes = Counter(failure.kind for failure in failures)
    first = {failure.kind: failure.failed for failure in failures}
    latest = {failure.kind: failure.failed for failure in reversed(failures)}
    found = [Group(kind, size, first[kind], latest[kind]) for kind, size in sizes.items()]
    return sorted(found, key=lambda group: (-group.size, -group.latest.seq))


def counted(sizes: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Add up what has the same name: the largest first, of equals by name."""
    total: Counter[str] = Counter()
    for name, size in sizes:
        total[name] += size
    return sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
