"""Messages as people and programs read them in what commands print.

Invariant: what cannot be decoded is shown all the same, as raw text or hexadecimal digits, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.messages.reading import read_body, read_headers

if TYPE_CHECKING:
    from rowbus.messages.message import PeekedMessage


def cut_note(message: PeekedMessage) -> str:
    """Say that a body is only its beginning; nothing if it is not."""
    if message.cut_from is None or message.body is None:
        return ""
    return f" (the first {len(message.body)} of {message.cut_from} bytes)"


def as_json(message: PeekedMessage) -> dict[str, object]:
    """Return a message for programs; `raw_headers` takes the place of `headers` that cannot be decoded."""
    headers, body = read_headers(message.headers), read_body(message.body)
    return {
        "seq": message.seq,
        "row_id": message.id,
        "expires": message.expires,
        "headers": headers,
        **({"raw_headers": message.headers} if headers is None else {}),
        "body": body.text,
        "body_encoding": body.encoding,
        **({} if message.cut_from is None else {"body_cut_from": message.cut_from}),
    }
