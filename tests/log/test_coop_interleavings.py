"""Cooperative members that die, wake up too late, hand back and leave at random: each event takes effect once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.fixtures.pairs import turn
from tests.log.coop_queue import CoopQueue, another_session, emptied

MEMBERS = ("a", "b", "d", "e")


class Group:
    """Members that remember which batch they believe to have, rightly or not."""

    def __init__(self, queue: CoopQueue, seed: int) -> None:
        self.queue = queue
        self.random = random.Random(seed)
        self.held: dict[str, int] = {}
        self.written = 0
        self.done: list[object] = []

    def step(self) -> None:
        member = self.random.choice(MEMBERS)
        action = self.random.choice(
            [self.fill, self.ask, self.ask, self.finish, self.finish, self.die, self.leave]
        )
        action(member)

    def fill(self, member: str) -> None:
        self.written += 1
        self.queue.fill(str(self.written))

    def ask(self, member: str) -> None:
        """Get a batch; one that still believes to have another forgets that."""
        asked = self.queue.take_over if self.random.random() < 0.7 else self.queue.next
        batch = asked(member)
        if batch is not None:
            self.held[member] = batch

    def finish(self, member: str) -> None:
        """Do the work and finish, in one transaction; undone when it was too late."""
        if (batch := self.held.pop(member, None)) is None:
            return
        with self.queue.connection.transaction() as transaction:
            try:
                with self.queue.connection.transaction():
                    datas = self.queue.datas(batch)
            except psycopg.errors.RaiseException:  # batch not found
                assert self.queue.finish(batch) == 0
                return
            if self.queue.finish(batch) == 0:
                raise psycopg.Rollback(transaction)
        self.done += datas

    def die(self, member: str) -> None:
        """Look dead to the others, and wake up some time."""
        self.queue.die(member)

    def leave(self, member: str) -> None:
        self.queue.unregister(member, 1)  # what it held it may still try to finish


@pytest.mark.parametrize("seed", turn(range(28), 4))
def test_each_event_takes_effect_once_whatever_the_members_do(pgq: psycopg.Connection, seed: int) -> None:
    queue = CoopQueue(pgq)
    queue.create(*MEMBERS)
    group = Group(queue, seed)
    for _ in range(120):
        group.step()
    for member in MEMBERS:
        queue.unregister(member, 1)
    group.done += emptied(queue, "last")
    assert sorted(group.done, key=lambda data: int(str(data))) == [
        str(n) for n in range(1, group.written + 1)
    ]
    assert queue.names() == ["c", "c.last"]


def work(dsn: str, member: str, seed: int) -> list[object]:
    """Work off what there is in a session of its own; now and then die, leave, or fail before the commit."""
    chance = random.Random(seed)
    done: list[object] = []
    idle = 0
    with another_session(dsn) as queue:
        queue.connection.execute("set lock_timeout = '20s'")
        while idle < 3:
            batch = queue.take_over(member)
            queue.connection.commit()
            if batch is None:
                idle += 1
                continue
            idle = 0
            fate = chance.random()
            if fate < 0.2:
                queue.die(member)
            elif fate < 0.4:
                queue.unregister(member, 1)
            else:
                datas = (
                    queue.datas(batch)
                    if queue.one("select 1 from pgq.subscription where sub_batch = %s", batch)
                    else []
                )
                if queue.finish(batch) == 1 and fate > 0.5:
                    done += datas
                else:
                    queue.connection.rollback()
            queue.connection.commit()
    return done


@pytest.mark.parametrize("seed", turn(range(28), 1))
def test_each_event_takes_effect_once_with_members_in_parallel(
    pgq: psycopg.Connection, log_database: str, seed: int
) -> None:
    queue = CoopQueue(pgq)
    queue.create(*MEMBERS)
    expected = [str(n) for n in range(30)]
    queue.fill(*expected)
    with ThreadPoolExecutor() as pool:
        workers = [pool.submit(work, log_database, member, seed * 10 + n) for n, member in enumerate(MEMBERS)]
        done = [data for worker in workers for data in worker.result()]
    for member in MEMBERS:
        queue.unregister(member, 1)
    done += emptied(queue, "last")
    assert sorted(done, key=lambda data: int(str(data))) == expected
