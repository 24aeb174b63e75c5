"""Legacy columns: headers of a SQL Server message that old NServiceBus endpoints and other software write in columns.

Versions before 7 fill the columns CorrelationId and ReplyToAddress; hand-written inserts may leave the headers empty
(docs/wire-format.md#queue-table-on-sql-server). Both become headers like any others when a message is received.

Invariant: pure; a header that is there wins over its column, and headers that cannot be read stay as they are.
"""

from __future__ import annotations

from rowbus.errors import MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers

NO_HEADERS = "{}"


def merged(headers: str, correlation_id: str | None = None, reply_to_address: str | None = None) -> str:
    """Return the header text of a message, with what its legacy columns say in addition."""
    text = headers or NO_HEADERS
    if not (correlation_id or reply_to_address):
        return text
    try:
        known = decode_headers(text)
    except MalformedHeadersError:
        return text
    columns = {Header.CORRELATION_ID: correlation_id, Header.REPLY_TO_ADDRESS: reply_to_address}
    missing = {name: value for name, value in columns.items() if value and not known.get(name)}
    return encode_copied_headers({**known, **missing}) if missing else text
