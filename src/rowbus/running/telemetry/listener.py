"""A small HTTP server for `/metrics`, `/livez` and `/readyz`: on the event loop that it tells of, for GET alone.

That the loop answers at all is what `/livez` says. A request has `LONGEST_REQUEST` bytes and `PATIENCE` seconds, and
each answer ends its connection. Where too many say nothing, the oldest of them goes, those of this machine last: so the
next who asks has a place.

Invariant: what clients do here harms no service; nothing here writes, and no answer holds a connection string.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger("rowbus.telemetry")

LONGEST_REQUEST: Final = 8192  # bytes, with all headers
PATIENCE: Final = 5.0  # seconds until a client that says nothing is let go
MOST_CLIENTS: Final = 32  # that say nothing yet, and that are answered, at a time
LIVE: Final = "/livez"  # costs nothing, and is answered however many others are
TEXT: Final = "text/plain; charset=utf-8"

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Answer(NamedTuple):
    """The answer to a client."""

    body: str
    status: int = 200
    type: str = TEXT


Page = Callable[[], Awaitable[Answer]]


class Address(NamedTuple):
    """Where to listen: a host and a port, or the path of a socket."""

    host: str
    port: int
    path: str = ""


def address_of(text: str) -> Address:
    """Read `HOST:PORT`, `[IPv6]:PORT` or `PORT` (then on this machine alone). Raises ConfigurationError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigurationError(
            f"{text!r} is no address to listen on; give HOST:PORT, for example 127.0.0.1:9464."
        )
    return Address(host.strip("[]") or "127.0.0.1", int(port))


class Listener:
    """Serves pages from `start` to `stop`. For one event loop."""

    def __init__(self, address: Address, pages: Mapping[str, Page]) -> None:
        """Take the pages by their paths. No I/O."""
        self._address = address
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._silent: dict[asyncio.StreamWriter, bool] = {}  # the oldest first; whether it is of this machine
        self._answering = 0

    @property
    def port(self) -> int:
        """The port it listens on, also where 0 was given; 0: it does not."""
        if self._server is None or self._address.path:
            return 0
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Where `/metrics` is, while it listens on a port."""
        return f"http://{_shown(self._address.host)}:{self.port}/metrics"

    async def start(self) -> None:
        """Begin to listen; raises ConfigurationError where that is not possible."""
        address = self._address
        try:
            if address.path:
                self._server = await asyncio.start_unix_server(
                    self._serve, address.path, limit=LONGEST_REQUEST
                )
            else:
                self._server = await asyncio.start_server(
                    self._serve, address.host, address.port, limit=LONGEST_REQUEST
                )
        except OSError as error:
            where = address.path or f"{address.host}:{address.port}"
            raise ConfigurationError(
                f"Nothing can listen on {where} ({error.strerror or error}): give --metrics another address."
            ) from error
        if not address.path:
            logger.info("Metrics and health are at %s", self.url)

    async def stop(self) -> None:
        """Stop to listen; harmless when stopped."""
        if self._server is not None:
            server, self._server = self._server, None
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._give_place(writer)
        try:
            async with asyncio.timeout(PATIENCE):
                head = await _head(reader)
                self._silent.pop(writer, None)
                writer.write(_written(*await self._answer(head)))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            logger.debug("A client went away, or said nothing for %s s", PATIENCE)
        finally:
            self._silent.pop(writer, None)
            writer.close()

    def _give_place(self, writer: asyncio.StreamWriter) -> None:
        """Take a client in; where there are too many, the one that has been silent for longest goes."""
        if len(self._silent) >= MOST_CLIENTS:
            oldest = next(
                (one for one, is_local in self._silent.items() if not is_local), next(iter(self._silent))
            )
            del self._silent[oldest]
            oldest.transport.abort()
        self._silent[writer] = _is_local(writer.get_extra_info("peername"))

    async def _answer(self, head: bytes | None) -> tuple[Answer, bool]:
        """Return the answer, and whether only its head is wanted."""
        if head is None:
            return Answer("The request is too long.\n", 400), False
        method, target, version = (*head.split(b"\r\n", 1)[0].split(b" "), b"", b"", b"")[:3]
        if not version.startswith(b"HTTP/1."):
            return Answer("This is no HTTP request.\n", 400), False
        if method not in {b"GET", b"HEAD"}:
            return Answer("Only GET is served here.\n", 405), False
        return await self._page(target.decode("latin-1").partition("?")[0]), method == b"HEAD"

    async def _page(self, path: str) -> Answer:
        page = self._pages.get(path)
        if page is None:
            return Answer(f"There are only {', '.join(self._pages)} here.\n", 404)
        if self._answering >= MOST_CLIENTS and path != LIVE:
            return Answer("Too many ask at once.\n", 503)
        self._answering += 1
        try:
            return await page()
        except Exception:
            logger.exception("Answering %s failed", path)
            return Answer("The answer could not be made; the log says why.\n", 500)
        finally:
            self._answering -= 1


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    """Read what a client asks; None if that is too long."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return None


def _is_local(peer: object) -> bool:
    """Say whether a client is of this machine: by its address, or because it came through a file's socket."""
    host = cast("tuple[object, ...]", peer)[0] if isinstance(peer, tuple) else "127.0.0.1"
    return host == "::1" or str(host).startswith(("127.", "::ffff:127."))


def _written(answer: Answer, head_only: bool) -> bytes:  # noqa: FBT001 - what `_answer` returned
    body = answer.body.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.type}\r\nContent-Length: {len(body)}\r\n"
        f"{'Allow: GET, HEAD' + chr(13) + chr(10) if answer.status == 405 else ''}"  # noqa: PLR2004 - HTTP's number
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    ).encode()
    return head if head_only else head + body


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
