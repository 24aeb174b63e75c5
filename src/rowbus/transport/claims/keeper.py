"""The keeper of a table of claimed values: deletes, once a minute, those whose time is over.

Invariant: as of every `RecordKeeper`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.transport.claims.table import claimed_values
from rowbus.transport.queues.records.keeper import RecordKeeper

if TYPE_CHECKING:
    from rowbus.database.statements import Statement


class ClaimKeeper(RecordKeeper):
    """Sweeps a table of claimed values, which several endpoints may share. For one event loop."""

    what = "claimed values"
    logger = logging.getLogger("rowbus.claims")

    def purge(self) -> Statement[int]:
        """Return the statement that deletes one batch of values."""
        return claimed_values(self._address).sweep()
