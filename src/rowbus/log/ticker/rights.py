"""The ticker's rights, which it lends to the functions of schema pgq: what is wrong with them, as text.

Invariant: pure; a superuser runs nothing of a schema whose owner could gain its rights.
"""

from __future__ import annotations

from typing import NamedTuple


class TickerRights(NamedTuple):
    """What a ticker would lend to the functions it calls; the columns of `log/ticker/rights.sql`."""

    role: str
    is_superuser: bool
    schema_owner: str | None
    """Who owns schema pgq; None: there is none."""

    owner_is_superuser: bool
    owner_is_databases: bool
    is_private: bool
    """Whether only one user of the machine can connect to the server, as to the embedded one."""

    @property
    def obstacle(self) -> str | None:
        """Why this role must not run what is in schema pgq, and what to do; None if it may."""
        trusted = self.schema_owner is None or self.owner_is_superuser or self.owner_is_databases
        if trusted or not self.is_superuser:
            return None
        return (
            f"The schema pgq belongs to {self.schema_owner}, who is neither a superuser nor the owner of this "
            f"database, and whose functions a ticker runs: the superuser {self.role} would lend them all its rights. "
            f"Run the ticker as a role that is a member of pgq_admin and no superuser."
        )

    @property
    def warning(self) -> str | None:
        """What to improve, if the role may do more than a ticker needs."""
        if not self.is_superuser or self.is_private:
            return None
        return (
            f"The ticker connects as the superuser {self.role}, and lends these rights to the functions it calls; "
            f"let it connect as a role that is a member of pgq_admin and no superuser."
        )
