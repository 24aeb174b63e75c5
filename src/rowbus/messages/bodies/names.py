"""Names of fields by convention: what `order_id` is called in a body.

Invariant: a name that a class gives its field itself (a struct's `rename`, a model's alias) wins over a convention.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rowbus.errors import ConfigurationError

Convention = Literal["pascal", "camel"]
"""`order_id` as `OrderId`, as .NET's properties are called, or as `orderId`."""


class Names(NamedTuple):
    """How fields are named: by a convention (None: as in Python), and whether case counts when reading."""

    rename: Convention | None = None
    ignore_case: bool = False

    def written(self, name: str) -> str:
        """Return what a field is called in a body."""
        if self.rename is None:
            return name
        first, *rest = (part for part in name.split("_") if part) if name.strip("_") else (name,)
        begin = first[:1].upper() + first[1:] if self.rename == "pascal" else first
        return begin + "".join(part[:1].upper() + part[1:] for part in rest)

    def compared(self, name: str) -> str:
        """Return the form in which two names are compared when reading."""
        return name.casefold() if self.ignore_case else name


AS_THEY_ARE = Names()


def checked_convention(rename: str | None) -> None:
    """Raise ConfigurationError for what is no convention."""
    if rename not in {None, "pascal", "camel"}:
        raise ConfigurationError(f'rename={rename!r} is no convention; give "pascal", "camel" or None.')
