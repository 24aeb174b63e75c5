"""Who uses the page, and what they may do.

Invariant: values only; a person is a viewer unless the way by which they came in makes them an operator.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Role(Enum):
    """What a person may do: a viewer looks, an operator also acts."""

    VIEWER = "viewer"
    OPERATOR = "operator"


class Person(NamedTuple):
    """Who makes a request. `key` binds CSRF tokens to a session; the name alone if there is nothing better."""

    name: str
    role: Role = Role.VIEWER
    key: str = ""

    @property
    def is_operator(self) -> bool:
        """Whether the person may act."""
        return self.role is Role.OPERATOR
