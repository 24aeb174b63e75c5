"""The synchronous client: for scripts, and for threads that ask at once."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import rowbus
from tests.conformance.backend import Backend
from tests.conformance.endpoints import NO_RETRIES, Endpoints
from tests.conformance.transport import LIMIT, within
from tests.transport.requests.conftest import Clients
from tests.transport.requests.test_requests import BILLING, Price, Quote, answering


def sync_client(backend: Backend) -> rowbus.RequestClient:
    return rowbus.RequestClient("Script", database=backend.dsn, schema=backend.schema)


async def test_threads_ask_at_once_and_the_queue_goes_in_the_end(
    endpoints: Endpoints, clients: Clients
) -> None:
    client = sync_client(endpoints.backend)

    def ask(_number: int) -> int:
        return client.request(BILLING, Quote("A1"), int, timeout=LIMIT)

    def ask_all() -> list[int]:
        with client, ThreadPoolExecutor(8) as threads:
            with client:  # a block that ends before the answers are there
                answers = threads.map(ask, range(16))
            return list(answers)

    async with answering(endpoints, 7):
        assert await within(asyncio.to_thread(ask_all)) == [7] * 16
    assert await clients.queues() == []


async def test_a_process_that_was_forked_asks_for_itself(endpoints: Endpoints, clients: Clients) -> None:
    client = sync_client(endpoints.backend)

    def ask(_number: int = 0) -> int:
        return client.request(BILLING, Quote("A1"), int, timeout=LIMIT)

    def ask_on_both_sides() -> list[int]:
        with client:
            before = ask()
            child = os.fork()
            if child == 0:
                try:
                    answer = ask()
                    client.stop()
                    os._exit(answer)
                finally:
                    os._exit(255)
            _, status = os.waitpid(child, 0)
            return [before, os.waitstatus_to_exitcode(status), ask()]

    async with answering(endpoints, 7):
        assert await within(asyncio.to_thread(ask_on_both_sides)) == [7, 7, 7]
    assert await clients.queues() == []


async def test_a_stop_leaves_no_thread_waiting(backend: Backend) -> None:
    """Whatever the threads have begun just then; what asks later is told that the client is stopped."""
    await backend.create_queue(BILLING)
    client = sync_client(backend)

    def ask() -> int:
        return client.request(BILLING, Quote("A1"), int, timeout=LIMIT)

    def stop() -> list[BaseException | None]:
        client.start()
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(ask) for _ in range(8)]
            client.stop()
            return [each.exception() for each in asked]

    errors = await within(asyncio.to_thread(stop))
    assert {type(error) for error in errors} <= {rowbus.NoAnswerError, rowbus.ConfigurationError}


async def test_a_script_learns_that_no_answer_came(backend: Backend, clients: Clients) -> None:
    await backend.create_queue(BILLING)
    client = sync_client(backend)

    def ask() -> None:
        with pytest.raises(rowbus.NoAnswerError):
            client.request(BILLING, Quote("A1"), Price, timeout=0.5)
        client.stop()
        client.stop()  # harmless

    await within(asyncio.to_thread(ask))
    assert await clients.queues() == []


async def test_a_def_handler_cannot_ask_either(endpoints: Endpoints) -> None:
    client = sync_client(endpoints.backend)
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)
    told: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @billing.handler
    def quote(message: Quote) -> None:
        with pytest.raises(rowbus.HandlerError) as caught:
            client.request(BILLING, Quote("B2"), Price)
        loop.call_soon_threadsafe(told.put_nowait, str(caught.value))

    async with billing:
        await endpoints.backend.client().send(BILLING, Quote("A1"))
        assert "cannot wait for an answer" in await within(told.get())
