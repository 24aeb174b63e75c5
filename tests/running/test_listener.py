"""The server of metrics and health: whoever says nothing keeps nobody else out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from rowbus.running.telemetry import listener as telemetry
from rowbus.running.telemetry.listener import LIVE, MOST_CLIENTS, Address, Answer, Listener
from tests.conformance.transport import eventually
from tests.fixtures.every import every

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = "GET {} HTTP/1.1\r\n\r\n"


@asynccontextmanager
async def serving(released: asyncio.Event) -> AsyncIterator[Listener]:
    async def live() -> Answer:
        return Answer("alive\n")

    async def slow() -> Answer:
        await released.wait()
        return Answer("measured\n")

    listener = Listener(Address("127.0.0.1", 0), {LIVE: live, "/metrics": slow})
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


async def connect(listener: Listener, stack: AsyncExitStack) -> Client:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    stack.callback(writer.close)
    return reader, writer


async def ask(client: Client, path: str = LIVE) -> bytes:
    reader, writer = client
    writer.write(GET.format(path).encode())
    return await reader.read()


async def test_the_oldest_client_that_says_nothing_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "PATIENCE", 600.0)  # none goes by itself
    async with asyncio.timeout(30), serving(asyncio.Event()) as listener, AsyncExitStack() as stack:
        silent = [await connect(listener, stack) for _ in range(MOST_CLIENTS + 8)]
        assert b"alive" in await ask(await connect(listener, stack))
        assert await silent[0][0].read() == b""
        assert b"alive" in await ask(silent[-1])


async def test_a_client_of_this_machine_goes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(asyncio.Event()) as listener, AsyncExitStack() as stack:
        local = await connect(listener, stack)
        monkeypatch.setattr(telemetry, "_is_local", lambda _peer: False)
        for _ in range(MOST_CLIENTS + 8):
            await connect(listener, stack)
        assert b"alive" in await ask(local)


async def test_whether_it_lives_is_said_however_many_pages_are_made() -> None:
    released = asyncio.Event()
    async with serving(released) as listener, AsyncExitStack() as stack:
        clients = [await connect(listener, stack) for _ in range(MOST_CLIENTS)]
        asking = [asyncio.create_task(ask(client, "/metrics")) for client in clients]
        await eventually(lambda: listener._answering == MOST_CLIENTS)
        assert b"503" in await ask(await connect(listener, stack), "/metrics")
        assert b"alive" in await ask(await connect(listener, stack))
        released.set()
        assert all(b"measured" in answer for answer in await asyncio.gather(*asking))


@every("peer", [("127.0.0.2", 1), ("::1", 1, 0, 0), ("::ffff:127.0.0.1", 1, 0, 0), "", b"\0socket"])
def test_who_is_of_this_machine(peer: object) -> None:
    assert telemetry._is_local(peer)
    assert not telemetry._is_local(("10.0.0.1", 1))
