"""A TCP proxy between programs and their server, that stalls, delays and cuts.

Invariant: no byte is lost, changed or reordered while a connection lives; what has not arrived when it is cut is lost.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

CHUNK: Final = 65536
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER's value that has a close reset the connection: the other end is told nothing but that it is gone."""


def _unseen(_piece: bytes) -> None:
    """Look at nothing that a client sends."""


class Proxy:
    """Listens on a port of its own and passes on to one server, in a thread of its own.

    `watch` is called for each connection; what it returns is shown each piece that the client sends.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        delay: float = 0.0,
        watch: Callable[[], Callable[[bytes], None]] = lambda: _unseen,
    ) -> None:
        self.port = 0
        self._server = host, port
        self._delay = delay
        self._watch = watch
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._open = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="chaos proxy", daemon=True)
        self._thread.start()
        self._ready.wait()

    # --- from the harness's thread

    def stall(self) -> None:
        """Pass nothing on, in either direction, and answer nothing."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def flow(self) -> None:
        """Pass on what has waited, and go on."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._loop.call_soon_threadsafe(self._cut)

    def mend(self) -> None:
        """Take new connections again."""
        self._open = True

    def close(self) -> None:
        """End it, and wait until it has."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- on its loop

    def _serve(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        self._flowing.set()
        self._ready.set()

    async def _end(self) -> None:
        self._listener.close()  # else programs that try again are let in, by tasks that nobody ends
        await asyncio.sleep(0)  # what was accepted before has its task now
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.1)  # long sleep: until the transports have told that they are closed

    def _cut(self) -> None:
        self._open = False
        for writer in self._writers:
            _reset(writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            _reset(writer)
            return
        try:
            to_server = await asyncio.open_connection(*self._server)
        except OSError:
            _reset(writer)
            return
        pair = {writer, to_server[1]}
        self._writers |= pair
        directions = (self._pass(reader, to_server[1], self._watch()), self._pass(to_server[0], writer))
        with suppress(asyncio.CancelledError):  # the proxy ends; Python 3.11 would print that
            await asyncio.wait([asyncio.ensure_future(direction) for direction in directions])
            self._writers -= pair
        for each in pair:
            each.close()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        see: Callable[[bytes], None] = _unseen,
    ) -> None:
        """Pass on in one direction, in order, each piece so much later than it came."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.ensure_future(self._write(pieces, writer))
        self._tasks.add(writing)
        with suppress(OSError):
            while piece := await reader.read(CHUNK):
                see(piece)
                pieces.put_nowait((self._loop.time() + self._delay, piece))
        pieces.put_nowait((self._loop.time() + self._delay, b""))
        await writing
        self._tasks.discard(writing)

    async def _write(self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                moment, piece = await pieces.get()
                await asyncio.sleep(max(0.0, moment - self._loop.time()))
                await self._flowing.wait()
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
