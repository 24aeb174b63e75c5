"""Enums that keep the numbers they do not define, as .NET's do.

Invariant: an open enum refuses what is no integer.
"""

from __future__ import annotations

from enum import IntEnum


class OpenEnum(IntEnum):
    """An `IntEnum` for a field of .NET's whose numbers may be newer than the class.

    A number without a member is kept as a member of that number, without being added to the class.
    """

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if type(value) is not int:
            return None
        member = int.__new__(cls, value)
        member._name_ = str(value)
        member._value_ = value
        return member
