"""What an exception says of itself: the name of its type, its text, the one inside it, its notes and its data.

Invariant: pure and total: an exception whose `__str__` fails, or whose data is odd, has facts all the same, and each
can be written into a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_NAME: Final = 512  # characters of the name of an exception's type, and of a key of its data
LONGEST_DATA: Final = 4_096  # characters of each value
MOST_DATA: Final = 50  # entries that are kept of an exception's data
MOST_INNER: Final = 20  # exceptions inside each other that are looked at
NOTES: Final = "Notes"


def type_name(error: BaseException) -> str:
    """Return the full name of an exception's type, without the module for built-in ones."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return writable(name[:LONGEST_NAME])


def text_of(value: object) -> str:
    """Return what a value says as text; its type where it cannot say anything."""
    try:
        return writable(str(value))
    except Exception:  # noqa: BLE001 - code of the user's, and a failure to tell of all the same
        return f"(a {type(value).__qualname__} whose text cannot be had)"


def inner_exception(error: BaseException) -> BaseException | None:
    """Return the exception inside another: a group's first, the cause, or what was handled when it was raised.

    `raise … from None` means that there is none.
    """
    if isinstance(error, BaseExceptionGroup):
        first: BaseException = error.exceptions[0]
        return first
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def chain_of(error: BaseException) -> list[BaseException]:
    """Return an exception and those inside it, the outermost first; an exception inside itself comes once."""
    chain = [error]
    while (inner := inner_exception(chain[-1])) is not None and len(chain) < MOST_INNER:
        if any(inner is one for one in chain):
            break
        chain.append(inner)
    return chain


def data_of(error: BaseException) -> dict[str, str]:
    """Return what an exception was given beside its text: its attribute `data`, if that is a mapping, and its notes."""
    try:
        facts = dict(_entries(getattr(error, "data", None)))
    except Exception:  # noqa: BLE001 - a property or a mapping of the user's
        facts = {}
    notes: object = getattr(error, "__notes__", None)
    if isinstance(notes, list) and notes:
        facts[NOTES] = "\n".join(map(text_of, cast("list[object]", notes)))[:LONGEST_DATA]
    return facts


def writable(text: str) -> str:
    """Replace half surrogate pairs, which no header may hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _entries(data: object) -> Iterator[tuple[str, str]]:
    if isinstance(data, Mapping):
        for name, value in islice(cast("Mapping[object, object]", data).items(), MOST_DATA):
            yield text_of(name)[:LONGEST_NAME], text_of(value)[:LONGEST_DATA]
