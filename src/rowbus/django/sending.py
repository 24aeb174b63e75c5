"""Sending in Django's transaction.

Invariant: a message sent here exists when the outermost `transaction.atomic()` commits, and not before.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

from rowbus import Client, ConfigurationError
from rowbus.django.databases import require_psycopg


def client(using: str = "default", **options: Any) -> Client:  # noqa: ANN401 - as Client's own
    """Return a Client that sends in the transaction that Django has open on an alias; use it within that block.

    `options` are those of `rowbus.Client`. In a handler of a `rowbus.django.Endpoint` that is the receive transaction.
    Raises ConfigurationError outside of `transaction.atomic()`, where each send would be a transaction of its own, and
    for a database that is not PostgreSQL.
    """
    connection: Any = require_psycopg(connections[using])
    if not connection.in_atomic_block:
        raise ConfigurationError(
            "rowbus.django.client() sends in Django's transaction, and there is none: call it inside "
            f"`with transaction.atomic({'' if using == 'default' else f'using={using!r}'}):`, beside the changes that "
            "the message belongs to."
        )
    connection.ensure_connection()
    return Client(connection.connection, **options)
