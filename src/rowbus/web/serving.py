"""Serves the page by itself: listens first, then says where, then serves until a signal.

Invariant: an address is said only when a browser can open it.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from rowbus.errors import ConfigurationError
from rowbus.web.asgi import application
from rowbus.web.settings import WebSettings

GRACE = 5  # seconds that requests have to end after the first signal


def serve(
    database: str | None, settings: WebSettings, *, host: str, port: int, say: Callable[[str], None]
) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. Raises ConfigurationError if it cannot listen. Blocks.

    `say` is given each line that an operator is to see.
    """
    with listening(host, port) as sock:
        address = address_of(sock)

        early = list[str]()
        server: _Server | None = None

        def tell(line: str) -> None:
            if server is not None and server.started:
                say(line)
            else:
                early.append(line)

        def announce(ticket: str) -> None:
            tell(f"Rowbus web lets one browser in at {address}/enter?ticket={ticket}")

        app = application(database, settings=settings, announce=announce)
        if settings.trusted_header:
            tell(f"Rowbus web serves at {address} who is named in {settings.trusted_header}")
        if settings.openid:
            tell(f"Rowbus web serves at {address} who signs in at {settings.openid.address}")
        configuration = uvicorn.Config(
            app,
            proxy_headers=False,  # the address that connects decides whether a header is trusted
            server_header=False,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE,
        )
        server = _Server(configuration, lambda: say("\n".join(early)))
        server.run([sock])
        return 0 if server.started else 1


class _Server(uvicorn.Server):
    """Uvicorn's, but its end by a signal is an end like any other: it does not raise the signal again."""

    def __init__(self, configuration: uvicorn.Config, when_started: Callable[[], None]) -> None:
        super().__init__(configuration)
        self._when_started = when_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and say so."""
        await super().startup(sockets)
        if self.started:
            self._when_started()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Have SIGTERM and SIGINT end it, and a second SIGINT at once."""
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listening(host: str, port: int) -> socket.socket:
    """Listen, and return the socket; raises ConfigurationError that says what to do."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
    except OSError as error:
        raise ConfigurationError(
            f"The page cannot listen at {host}, port {port}: {error.strerror or error}. Another may be running there: "
            "give it another --port, or --port 0 for any that is free."
        ) from error
    return sock


def address_of(sock: socket.socket) -> str:
    """Return the address that a browser on this machine opens."""
    host, port = sock.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not listened at
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
