"""Subscriptions: the table in which publishers look up subscribers, in the exact shape NServiceBus gives it.

Source: docs/wire-format.md#subscriptions. One row for a logical endpoint and a topic, however many instances there are.

Invariant: all endpoints that exchange events use the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import lines
from rowbus.transport.pubsub import table
from rowbus.transport.queues.records.sqlserver import RecordTable

if TYPE_CHECKING:
    from collections.abc import Iterable


class SubscriptionRouting(table.SubscriptionRouting, RecordTable):
    """Statements on one table of subscriptions."""

    def _texts(self, texts: Iterable[str]) -> object:
        return lines(texts)
