"""What somebody does about the error queue: mends what is broken, then puts back what failed because of it.

The same as `rowbus errors retry --exception GatewayDownError --schema rowbus_demo`.

Invariant: what is put back, and the note of it that the proof needs, commit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.demo.messages import ADDRESSES
from rowbus.demo.partners import GatewayDownError
from rowbus.demo.statements import execute
from rowbus.transport.recoverability.error_queue import ErrorQueue
from rowbus.transport.recoverability.failed_message import Selection

if TYPE_CHECKING:
    from rowbus.database.sessions import Session


def put_back(session: Session) -> int:
    """Mend the broken bank and send the charges back that failed for it; return how many."""
    execute(session, "end_outages")
    errors = ErrorQueue(session, ADDRESSES.for_endpoint("error"))
    exception = GatewayDownError.__name__
    with session.transaction():
        execute(session, "record_put_back", exception=exception)
        return errors.retry(Selection(exceptions=frozenset({exception}))).moved.total()
