"""The lanes of an endpoint in the database: made when it first starts with them, and changed when a person says so.

Invariant: no message is lost or overtaken by another of its key, and none is left in a lane that nobody serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.transport.lanes.lane_table import LaneTable
from rowbus.transport.queues.installer import create_queue
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.lanes.rule import Lanes


async def install_lanes(
    session: AsyncSession, queue: QueueAddress, lanes: Lanes | None, *, install: bool
) -> None:
    """Have a queue's messages go to its endpoint's lanes, which are there; with `install`, if nothing is said yet.

    Takes a short exclusive lock on the queue when it changes something. Raises ConfigurationError where the database
    has other lanes than the endpoint.
    """
    table = LaneTable(queue)
    rule = await session.run(table.find_rule())
    if (rule is None and lanes is None) or (rule is not None and rule.is_ours and rule.gives(lanes)):
        return
    if lanes is not None and install and (rule is None or rule.gives(lanes)):
        async with session.transaction():
            await session.run_all(table.create(lanes))
            await session.run(table.move_out(queue, lanes.header))
        return
    raise ConfigurationError(
        f"{queue} has {described(rule and rule.lanes)} in the database, and its endpoint {described(lanes)}. Stop "
        "the endpoint's processes and type `rowbus endpoint lanes MODULE:ENDPOINT`: messages keep their order."
    )


async def change_lanes(
    session: AsyncSession, queue: QueueAddress, lanes: Lanes | None, *, body_string: bool
) -> int:
    """Give a queue the lanes that its endpoint is to have, in one transaction; return how many messages moved.

    The messages of each key keep their order. Waits for those that use the queue and its lanes, and keeps everybody
    from them meanwhile. Raises StorageError, and ConfigurationError as the installer of queues.
    """
    table = LaneTable(queue)
    async with session.transaction():
        await session.run(table.lock(queue))
        rule = await session.run(table.find_rule())
        before = [] if rule is None else rule.lanes.addresses(queue)
        after = [] if lanes is None else lanes.addresses(queue)
        for lane in after:
            await create_queue(session, lane, body_string=body_string)
        for lane in before:
            await session.run(table.lock(lane))
        await session.run_all([table.drop()])
        moved = sum([await session.run(table.move_out(lane, "")) for lane in before])
        if lanes is not None:
            await session.run_all(table.create(lanes))
            moved = await session.run(table.move_out(queue, lanes.header))
        for lane in set(before) - set(after):
            await session.run(queue_table(lane).drop())
    return moved


def lane_faults(session: Session, queue: QueueAddress, lanes: Lanes) -> dict[str, tuple[str, ...]]:
    """Return what of a queue's lanes is not as its endpoint is to have them, under its address."""
    rule = session.run(LaneTable(queue).find_rule())
    if rule is None or not rule.gives(lanes):
        return {str(queue): (f"{described(rule and rule.lanes)}, not {lanes}",)}
    another = "the trigger of its lanes is of another version of Rowbus, or does not run for every sender"
    return {} if rule.is_ours else {str(queue): (another,)}


def described(lanes: Lanes | None) -> str:
    """Say what lanes these are: `4 lanes by key`."""
    return str(lanes or "no lanes")
