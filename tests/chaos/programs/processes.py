"""A saga of Work: two messages in any order and a timeout, after which it completes; each is noted once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import rowbus
from tests.chaos.programs.effects import NEXT, note

TIMEOUT = timedelta(milliseconds=500)  # as NEXT has it


@rowbus.command("Chaos.FirstStep")
@dataclass
class FirstStep:
    number: int


@rowbus.command("Chaos.SecondStep")
@dataclass
class SecondStep:
    number: int


@rowbus.message("Chaos.Overdue")
@dataclass
class Overdue:
    number: int
    due: str


@dataclass
class Steps:
    number: int
    done: list[str] = field(default_factory=list)


class Process(rowbus.Saga[Steps], name="Chaos.Process", correlation="number"):
    """Completes when all three have happened."""

    @rowbus.starts(FirstStep, by=lambda message: message.number)
    async def first(self, message: FirstStep, context: rowbus.SagaContext) -> None:
        await self._go_on("first step", context)

    @rowbus.starts(SecondStep, by=lambda message: message.number)
    async def second(self, message: SecondStep, context: rowbus.SagaContext) -> None:
        await self._go_on("second step", context)

    @rowbus.timeout(Overdue)
    async def overdue(self, message: Overdue, context: rowbus.SagaContext) -> None:
        await self._go_on("timeout", context, message.due)

    async def _go_on(self, step: str, context: rowbus.SagaContext, due: str | None = None) -> None:
        number = self.state.number
        if context.is_new:
            row = await (await context.connection.execute(NEXT)).fetchone()
            assert row is not None
            await context.request_timeout(Overdue(number, row[0].isoformat()), after=TIMEOUT)
        await note(context, step, {"number": number}, due=due)
        self.state.done.append(step)
        if len(self.state.done) == 3:
            await note(context, "completion", {"number": number})
            context.complete()
