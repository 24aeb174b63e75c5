"""A server that speaks just enough TDS for Microsoft's driver: it logs in, fails as told, hangs, or answers nothing.

With it the real driver is tried without a SQL Server: what it raises for which error number, what it sends as a
parameter's type, what becomes of a call that is given up. Source: [MS-TDS], 2.2.3 (packets) and 2.2.7 (tokens).

A batch or call whose text holds `error <number> <words>;` fails so; `hang` is answered when it is cancelled; `drop`
ends the connection; anything else is done and answers nothing.

Invariant: it listens on the loopback interface, and its threads end with the process.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PRELOGIN, LOGIN, BATCH, CALL, ATTENTION = 0x12, 0x10, 1, 3, 6
REPLY, LAST = 4, 1
NOT_ENCRYPTED = 2
_ERROR = re.compile(r"error (\d+) ([^;]*);")
_VERSION = bytes.fromhex("74000004")  # TDS 7.4
_FAILED, _CANCELLED = 0x2, 0x20


class Refusal(Exception):  # noqa: N818 - an answer, not an error of the test's
    """Refusal of a login."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number, self.text = number, text


class Server:
    """One listening server."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self._refusal = refusal
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[str] = []
        self.hanging = threading.Event()
        threading.Thread(target=self._accept, name="wire", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or `accept` would take one more
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), name="wire", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while (request := _read(stream.read)) is not None:
                reply = self._reply(*request)
                if reply is None:
                    return
                if reply:
                    connection.sendall(_packet(reply))

    def _reply(self, kind: int, data: bytes) -> bytes | None:
        """Return what to answer; nothing: later, None: never again."""
        if kind == PRELOGIN:
            return _prelogin()
        if kind == LOGIN and self._refusal is not None:
            return _error(self._refusal.number, self._refusal.text) + _done(_FAILED)
        if kind == LOGIN:
            return _logged_in()
        if kind == ATTENTION:
            return _done(_CANCELLED)
        return self._answer(data, _done if kind == BATCH else _call_done)

    def _answer(self, data: bytes, done: object) -> bytes | None:
        text = data.decode("latin-1").replace("\0", "")  # UTF-16 of ASCII, or bytes of no matter
        self.requests.append(text)
        assert callable(done)
        if "hang" in text:
            self.hanging.set()
            return b""
        if "drop" in text:
            return None
        if failure := _ERROR.search(text):
            return _error(int(failure[1]), failure[2]) + bytes(done(_FAILED))
        return bytes(done(0))


@contextmanager
def serving(refusal: Refusal | None = None) -> Iterator[Server]:
    """Serve for the length of a block."""
    server = Server(refusal)
    try:
        yield server
    finally:
        server.close()


def _read(read: object) -> tuple[int, bytes] | None:
    """Read one message, of as many packets as it has; None at the end."""
    assert callable(read)
    message = b""
    while True:
        header: bytes = read(8)
        if len(header) < 8:
            return None
        kind, status, length = struct.unpack(">BBH", header[:4])
        message += read(length - 8)
        if status & LAST:
            return kind, message


def _packet(data: bytes) -> bytes:
    return struct.pack(">BBHHBB", REPLY, LAST, len(data) + 8, 0, 1, 0) + data


def _prelogin() -> bytes:
    options = struct.pack(">BHH", 0, 11, 6) + struct.pack(">BHH", 1, 17, 1) + b"\xff"
    return options + bytes([16, 0, 3, 232, 0, 0]) + bytes([NOT_ENCRYPTED])


def _logged_in() -> bytes:
    acknowledged = b"\x01" + _VERSION + _short_text("Microsoft SQL Server") + bytes([16, 0, 3, 232])
    sizes = b"\x04" + _short_text("4096") + _short_text("4096")
    return _token(0xE3, sizes) + _token(0xAD, acknowledged) + _done(0)


def _error(number: int, text: str) -> bytes:
    content = struct.pack("<iBB", number, 1, 16) + struct.pack("<H", len(text)) + text.encode("utf-16-le")
    return _token(0xAA, content + _short_text("wire") + _short_text("") + struct.pack("<i", 1))


def _token(kind: int, content: bytes) -> bytes:
    return struct.pack("<BH", kind, len(content)) + content


def _done(status: int) -> bytes:
    return struct.pack("<BHHQ", 0xFD, status, 0, 0)


def _call_done(status: int) -> bytes:
    return struct.pack("<Bi", 0x79, 0) + struct.pack("<BHHQ", 0xFE, status, 0, 0)


def _short_text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("utf-16-le")
