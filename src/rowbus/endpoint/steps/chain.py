"""The steps around a handler: throttle → meter → audit → saga audit → duplicates → mutators → yours → handlers.

A step does something before and after the rest of the way, or instead of it. The built-in ones work on deliveries;
yours, given to `Endpoint.use`, on a `StepContext`. The mutators of an endpoint change what it receives.

Invariants: the chain is built once, when the endpoint starts, and without steps of its own it has only the built-in
ones; a delivery leaves as it came, but for what steps and handlers did to its headers: its copy in the audit queue can
be read by those who could read the message.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from rowbus.endpoint.pipeline import identify, subject_of
from rowbus.endpoint.steps.context import StepContext
from rowbus.errors import ConfigurationError, HandlerError
from rowbus.messages.mutators import with_changes
from rowbus.running.functions import can_be_called, described, is_async
from rowbus.running.handling import concerning, refuse_forgotten
from rowbus.running.turns import onto_loop
from rowbus.transport.claims.claim_check import off_the_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowbus.endpoint.pipeline import Pipeline
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.receiving.delivery import Delivery, OnMessage

    Around = Callable[[OnMessage], OnMessage]


class Proceed(Protocol):
    """Runs the rest of a message's way: the steps after this one, then the handlers. To be awaited, at most once."""

    def __call__(self) -> Awaitable[None]:
        """Run it; raises what a later step or a handler raises."""
        raise NotImplementedError


class Step(Protocol):
    """A step that an endpoint takes around the handlers of each message: any `async def step(context, proceed)`."""

    def __call__(self, context: StepContext, proceed: Proceed, /) -> Awaitable[None]:
        """Handle a message by way of `proceed`; raise to fail the attempt."""
        raise NotImplementedError


def with_steps(handlers: OnMessage, *steps: Around | None) -> OnMessage:
    """Return what processes a message: built-in steps in their order (None: one not wanted), then `handlers`."""
    process = handlers
    for around in reversed(steps):
        process = process if around is None else around(process)
    return process


def with_own_steps(pipeline: Pipeline, steps: Sequence[Step]) -> OnMessage:
    """Return what processes a message: the endpoint's own steps in the order of `use`, then its handlers."""
    return partial(_take_steps, pipeline, tuple(steps)) if steps else pipeline.process


def checked(step: Step) -> Step:
    """Return a step as it is; raises ConfigurationError for what cannot be one."""
    if not can_be_called(step, "context", "proceed"):
        raise ConfigurationError(
            f"{described(step)} must take (context, proceed), by position, to be a step."
        )
    if not is_async(step):
        raise ConfigurationError(
            f"{_name(step)} must be an `async def` to be a step: it awaits the handlers, and `def` handlers run in "
            "their threads meanwhile. Work that blocks belongs in `await asyncio.to_thread(…)`."
        )
    return step


async def _take_steps(pipeline: Pipeline, steps: Sequence[Step], delivery: Delivery) -> None:
    """Run the user's steps and, if they let it pass, the message's handlers; raises what one of them raises."""
    await onto_loop()
    identify(delivery)
    context = StepContext(delivery, pipeline)
    with concerning(subject_of(delivery)):
        await _take(steps, context)
    refuse_forgotten(context)


async def _take(steps: Sequence[Step], context: StepContext) -> None:
    """Run the first step; its `proceed` runs the next one, the last one's the handlers."""
    if not steps:
        try:
            await context._handle()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for steps
        finally:  # a step goes on, also after a failure
            await context._delivery.ensure_finished()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its attempt
        return
    step, *later = steps
    rest = _Rest(lambda: _take(later, context), step)
    await step(context, rest)
    rest.ensure_awaited()


class _Rest:
    """The rest of a message's way, for one step: runs once, and notices a step that does not wait for it."""

    __slots__ = ("_begun", "_ended", "_run", "_step")

    def __init__(self, run: Proceed, step: Step) -> None:
        self._run = run
        self._step = step
        self._begun = False
        self._ended = False

    def __call__(self) -> Awaitable[None]:
        if self._begun:
            raise HandlerError(
                f"The step {_name(self._step)} called proceed twice. Raise to have the message retried."
            )
        self._begun = True
        return self._follow()

    async def _follow(self) -> None:
        try:
            await self._run()
        finally:
            await onto_loop()
            self._ended = True

    def ensure_awaited(self) -> None:
        """Raise HandlerError if the step called `proceed` and did not wait for its end."""
        if self._begun and not self._ended:
            raise HandlerError(
                f"The step {_name(self._step)} returned before the handlers had ended: `await proceed()`."
            )


def _name(step: object) -> str:
    return str(getattr(step, "__qualname__", None) or type(step).__qualname__)


def with_mutators(proceed: OnMessage, mutators: Sequence[Mutator]) -> OnMessage:
    """Return what processes a message as the mutators change it; without any, `proceed` itself."""
    return partial(_process, proceed, tuple(mutators)) if mutators else proceed


async def _process(proceed: OnMessage, mutators: Sequence[Mutator], delivery: Delivery) -> None:
    """Process a message as it is off the wire; raises what a mutator raises, and what processing it raises."""
    await onto_loop()
    headers, body = delivery.headers, delivery.body
    given = dict(headers)
    delivery.body = await off_the_wire(given, body, mutators, delivery)
    delivery.headers = dict(given)
    try:
        await proceed(delivery)
    finally:
        delivery.headers = with_changes(headers, given, delivery.headers)
        delivery.body = body
