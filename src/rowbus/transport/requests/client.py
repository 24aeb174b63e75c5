"""Asking an endpoint and waiting for its answer, from web requests and scripts.

Invariant: nothing touches the database before the start, or the first request; after `stop` nothing is left running,
and the queue of the answers is gone, unless it was named.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rowbus.database.backends import addresses_of, open_database
from rowbus.database.location import resolve_dsn
from rowbus.database.locks import require_sessions
from rowbus.errors import ConfigurationError, HandlerError
from rowbus.messages.message_types import DEFAULT
from rowbus.messages.mutators import checked_mutator
from rowbus.messages.outgoing import Options
from rowbus.running.handling import message_in_hand
from rowbus.running.service import Lifetime
from rowbus.running.setting_types import require_type
from rowbus.running.signals import Blocks
from rowbus.transport.composition import identity_of
from rowbus.transport.queues.reserved_names import check_endpoint_name
from rowbus.transport.requests.asking import Asking

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Self

    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.composition import Destination

A = TypeVar("A")
T = TypeVar("T")

TIMEOUT = 30.0  # seconds that an answer is waited for unless the caller says
RETRY = 0.1  # seconds from one stop to the next, of a client that other threads use


class AsyncRequestClient:
    """Sends messages and waits for their answers, each in a transaction of its own.

    ```python
    async with rowbus.AsyncRequestClient("Web", database="postgresql://…") as client:
        price = await client.request("Billing", Quote("42"), Price, timeout=5)
    ```

    The answers come to a queue of this client's own, which it creates when it starts and drops when it stops; other
    clients remove the queue of one that died. For one event loop, and as many requests at once as you like.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        database: str | None = None,
        schema: str | None = None,
        serializer: Serializer = DEFAULT,
        mutators: Sequence[Mutator] = (),
        answer_queue: str | None = None,
    ) -> None:
        """Describe who asks; no I/O.

        `endpoint` is the name in the headers and that of the queue begins with (None: the program's). `database` is a
        connection string; none given, the environment variable ROWBUS_DATABASE, else the embedded server. One session
        hears notifications and holds a lock, so it must not go through a pooler in transaction mode. `schema` is where
        queues given by name are, and the queue of the answers; the role may create tables there. `serializer` writes
        the messages and reads the answers, `mutators` change both. `answer_queue` names the queue of the answers, where
        those who answer cannot send to every name: one that nothing else receives from; it stays when the client stops,
        and one client has it at a time. Raises ConfigurationError for what is no mutator, InvalidAddressError.
        """
        self._sender = identity_of(endpoint)
        self._database = database
        self._schema = schema
        self._serializer = serializer
        self._mutators = tuple(map(checked_mutator, mutators))
        self._answer_queue = answer_queue
        if answer_queue is not None:
            check_endpoint_name(answer_queue)
        self._lifetime: Lifetime[Asking] = Lifetime(self)
        self._blocks = Blocks()
        self._is_stopped = False

    async def start(self) -> None:
        """Create the queue of the answers, and begin to receive them. Harmless when started.

        Raises ConnectionLostError, PermissionDeniedError, ConfigurationError (the schema is missing).
        """
        self._is_stopped = False
        await self._lifetime.begin(self._begin)

    async def stop(self) -> None:
        """Give up what waits, with NoAnswerError, drop the queue, and close the connections. Harmless when stopped."""
        self._is_stopped = True
        await self._lifetime.end()

    async def __aenter__(self) -> Self:
        """Start; see `start`."""
        await self._blocks.enter(self.start)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop at the end of the last block that is open; see `stop`."""
        await self._blocks.leave(self.stop)

    async def request(
        self,
        destination: Destination,
        message: object,
        answer: type[A],
        *,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - the wait is the point
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> A:
        """Send a message, and return its answer: what its handler replies.

        The message is committed at once, in a transaction of its own. `answer` is the class of the reply: one of a
        message, `dict`, `bytes`, `int`, or an enum whose values are numbers (.NET's callbacks). `timeout` is in
        seconds, from the call on; `type` names dicts and bytes. Starts the client if it is not started.

        Raises NoAnswerError when none came in time: the message may still be handled; MessageDeserializationError for
        an answer of another kind, and what `Client.send` raises. Raises HandlerError in a handler.
        """
        refuse_in_handler()
        require_type("timeout", timeout, float | int, "seconds, as in timeout=5")
        asking = self._lifetime.here() or await self._lifetime.begin(self._begin)
        return await asking.request(
            destination, message, answer, Options(headers, type=type), timeout=timeout
        )

    async def _begin(self) -> Asking:
        if self._is_stopped:
            raise ConfigurationError("The client is stopped: start it again before a request.")
        dsn = await asyncio.to_thread(resolve_dsn, self._database)
        database = open_database(dsn, application_name="rowbus requests")
        await asyncio.to_thread(require_sessions, database, "A request client")
        asking = Asking(
            database,
            addresses_of(dsn, self._schema),
            self._sender,
            serializer=self._serializer,
            mutators=self._mutators,
            answer_queue=self._answer_queue,
        )
        try:
            await asking.start()
        except BaseException:
            await asking.stop()
            raise
        return asking


class RequestClient:
    """The synchronous twin of `AsyncRequestClient`, for scripts and for views that run in threads.

    ```python
    with rowbus.RequestClient("Reports", database="postgresql://…") as client:
        price = client.request("Billing", Quote("42"), Price, timeout=5)
    ```

    Its connections are served by a thread of its own. As many threads as you like may ask at once.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        database: str | None = None,
        schema: str | None = None,
        serializer: Serializer = DEFAULT,
        mutators: Sequence[Mutator] = (),
        answer_queue: str | None = None,
    ) -> None:
        """Describe who asks; no I/O. See `AsyncRequestClient`."""
        self._make = partial(
            AsyncRequestClient,
            endpoint,
            database=database,
            schema=schema,
            serializer=serializer,
            mutators=mutators,
            answer_queue=answer_queue,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._begin()

    def start(self) -> None:
        """Create the queue of the answers, and begin to receive them; see `AsyncRequestClient.start`."""
        self._run(lambda client: client.start())

    def stop(self) -> None:
        """Give up what waits, drop the queue, and end the thread; see `AsyncRequestClient.stop`. Called at exit."""
        self._begin_in_fork()
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        atexit.unregister(self.stop)
        while True:  # once more for what another thread began meanwhile, which nothing would end
            asyncio.run_coroutine_threadsafe(self._client.stop(), loop).result()
            if not futures.wait(tuple(self._asked), timeout=RETRY).not_done:
                break
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def __enter__(self) -> Self:
        """Start; see `start`."""
        self._begin_in_fork()
        with self._starting:
            self._blocks += 1
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop when no other block is open, in this thread or another; see `stop`."""
        self._begin_in_fork()
        with self._starting:
            self._blocks -= 1
            is_last = self._blocks < 1
        if is_last:
            self.stop()

    def request(
        self,
        destination: Destination,
        message: object,
        answer: type[A],
        *,
        timeout: float = TIMEOUT,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> A:
        """Send a message, and return its answer. Blocks; see `AsyncRequestClient.request`."""
        refuse_in_handler()
        return self._run(
            lambda client: client.request(
                destination, message, answer, timeout=timeout, type=type, headers=headers
            )
        )

    def _begin(self) -> None:
        self._process = os.getpid()
        self._client = self._make()
        self._starting = threading.Lock()
        self._loop = self._thread = None
        self._blocks = 0
        self._asked = set[futures.Future[Any]]()

    def _begin_in_fork(self) -> None:
        """Leave what a fork has copied to the process that made it: its thread is not here, its sockets are shared."""
        if self._process != os.getpid():
            _left_to_parents.append((self._client, self._loop))
            self._begin()

    def _run(self, work: Callable[[AsyncRequestClient], Coroutine[Any, Any, T]]) -> T:
        self._begin_in_fork()
        with self._starting:
            running = asyncio.run_coroutine_threadsafe(work(self._client), self._served())
            self._asked.add(running)
        running.add_done_callback(self._asked.discard)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def _served(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="rowbus requests", daemon=True
            )
            self._thread.start()
            atexit.register(self.stop)
        return self._loop


_left_to_parents: list[
    object
] = []  # never collected: its end would close connections that another process uses


def refuse_in_handler() -> None:
    """Raise HandlerError where a handler of an endpoint asks: it would hold its transaction until the answer came."""
    message_id = message_in_hand()
    if message_id is not None:
        raise HandlerError(
            f"A handler cannot wait for an answer (message {message_id} is in hand): its transaction would stay open "
            "meanwhile, and handlers that all wait leave none to answer. Send with `context.send`, and handle the "
            "reply in a handler of its own, or keep the process in a saga."
        )
