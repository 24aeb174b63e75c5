"""pgq_coop: several sub-consumers share the batches of one consumer, and none is lost or worked off twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from tests.fixtures.every import every
from tests.log.coop_queue import CoopQueue, another_session, emptied


@pytest.fixture
def log_script() -> str:
    return "select pgq.create_queue('q')"


@pytest.fixture
def queue(pgq: psycopg.Connection) -> CoopQueue:
    queue = CoopQueue(pgq)
    queue.create("a", "b")
    return queue


# ------------------------------------------------------------------------------------------------- registration


def test_registering_makes_the_main_consumer_and_the_member_once(queue: CoopQueue) -> None:
    assert queue.register("a") == 0
    assert queue.names() == ["c", "c.a", "c.b"]
    assert queue.column("select count(distinct sub_id) from pgq.subscription") == [1]


def test_a_member_has_no_position_of_its_own(queue: CoopQueue) -> None:
    info = queue.connection.execute(
        "select last_tick, current_batch, next_tick, lag from pgq.get_consumer_info('q', 'c.a')"
    )
    assert info.fetchall() == [(None, None, None, None)]


def test_a_queue_that_does_not_exist_is_an_error(pgq: psycopg.Connection) -> None:
    with pytest.raises(errors.RaiseException, match="Event queue not created yet"):
        pgq.execute("select pgq_coop.register_subconsumer('nowhere', 'c', 'a')")
    with pytest.raises(errors.RaiseException, match="Event queue not created yet"):
        pgq.execute("select pgq_coop.next_batch('nowhere', 'c', 'a')")
    assert CoopQueue(pgq).names() == []


@every("names", [(None, "a"), ("c", None)])
def test_a_consumer_without_a_name_is_an_error(
    queue: CoopQueue, names: tuple[str | None, str | None]
) -> None:
    with pytest.raises(errors.NotNullViolation):
        queue.one("select pgq_coop.register_subconsumer('q', %s, %s)", *names)


def test_a_name_that_is_subscribed_on_its_own_cannot_become_a_member(queue: CoopQueue) -> None:
    queue.one("select pgq.register_consumer('q', 'c.own')")
    with pytest.raises(errors.RaiseException, match=r"consumer c.own is not a subconsumer"):
        queue.next("own")


def test_several_sessions_may_be_the_first_at_the_same_time(
    pgq: psycopg.Connection, log_database: str
) -> None:
    pgq.execute("select pgq.create_queue('q')")

    def join(member: str) -> object:
        with another_session(log_database) as session:
            answer = session.register(member)
            session.connection.commit()
            return answer

    with another_session(log_database) as first, ThreadPoolExecutor() as pool:
        assert first.register("m0") == 1
        others = [pool.submit(join, member) for member in ("m0", "m1", "m2", "m3")]
        first.connection.commit()
        assert [other.result() for other in others] == [0, 1, 1, 1]
    assert CoopQueue(pgq).names() == ["c", "c.m0", "c.m1", "c.m2", "c.m3"]


def test_unregistering_removes_an_idle_member_and_its_name(queue: CoopQueue) -> None:
    assert queue.unregister("a") == 1
    assert queue.unregister("a") == 0
    assert queue.unregister("unknown") == 0
    assert queue.one("select pgq_coop.unregister_subconsumer('q', 'unknown', 'a', 0)") == 0
    assert queue.names() == ["c", "c.b"]


def test_a_name_that_another_queue_uses_stays(queue: CoopQueue) -> None:
    queue.one("select pgq.create_queue('other')")
    queue.one("select pgq_coop.register_subconsumer('other', 'c', 'a')")
    assert queue.unregister("a") == 1
    assert queue.names() == ["c", "c.a", "c.b"]


# ------------------------------------------------------------------------------------------------------ batches


def test_members_share_the_batches(queue: CoopQueue) -> None:
    queue.fill("1", "2")
    first, second = queue.next("a"), queue.next("b")
    assert queue.datas(first) == ["1"]
    assert queue.datas(second) == ["2"]
    assert queue.finish(second) == 1
    assert queue.finish(first) == 1
    assert queue.next("a") is None


def test_whoever_asks_is_registered(pgq: psycopg.Connection) -> None:
    queue = CoopQueue(pgq)
    queue.create()
    assert queue.next("new") is None
    assert queue.names() == ["c", "c.new"]


def test_a_member_gets_its_batch_again_until_it_is_finished(queue: CoopQueue) -> None:
    queue.fill("1", "2")
    batch = queue.next("a")
    queue.die("a")
    assert queue.next("a") == batch
    assert queue.last_seen("a") == 0
    assert queue.finish(batch) == 1
    assert queue.next("a") != batch


def test_a_batch_that_the_main_consumer_has_open_is_an_error(queue: CoopQueue) -> None:
    queue.fill("1")
    batch = queue.one("select pgq.next_batch('q', 'c')")
    with pytest.raises(errors.RaiseException, match=r"main consumer has batch open\?"):
        queue.next("a")
    assert queue.one("select pgq.finish_batch(%s)", batch) == 1
    assert queue.next("a") is None


@pytest.mark.parametrize(
    "limits",
    [
        "'1 hour', null, null",
        "null, 1000000, null",
        "null, 1000000, null, '1 hour'",
        "'1 hour', null, null, null",
    ],
)
def test_the_size_of_a_batch_can_be_asked_for(queue: CoopQueue, limits: str) -> None:
    queue.fill("1")
    asked = f"select pgq_coop.next_batch_custom('q', 'c', 'a', {limits})"
    assert queue.connection.execute(asked.encode()).fetchone() == (None,)
    assert queue.connection.execute(
        b"select pgq_coop.next_batch_custom('q','c','a',null,1,null)"
    ).fetchone() != (None,)


def test_next_batch_info_gives_the_ticks_of_the_batch(queue: CoopQueue) -> None:
    queue.fill("1")
    query = b"select * from pgq_coop.next_batch_info('q', %s, %s, null, null, null, null)"
    with_ticks = queue.connection.execute(query, ["c", "a"]).fetchone()
    queue.one("select pgq.register_consumer_at('q', 'plain', 1)")
    plain = queue.connection.execute("select * from pgq.next_batch_info('q', 'plain')").fetchone()
    assert with_ticks is not None
    assert plain is not None
    assert with_ticks[1:] == plain[1:]
    assert queue.connection.execute(query, ["c", "b"]).fetchone() == (None,) * 7


def test_finishing_what_is_nobodys_warns_and_returns_0(queue: CoopQueue) -> None:
    queue.fill("1")
    batch = queue.next("a")
    assert queue.finish(batch) == 1
    assert queue.finish(batch) == 0
    assert queue.warnings == [f"coop_finish_batch: batch {batch} not found"]


def test_the_batch_of_a_plain_consumer_is_not_finished_here(queue: CoopQueue) -> None:
    queue.one("select pgq.register_consumer('q', 'plain')")
    queue.fill("1")
    batch = queue.one("select pgq.next_batch('q', 'plain')")
    assert isinstance(batch, int)
    assert queue.finish(batch) == 0
    assert queue.one("select pgq.next_batch('q', 'plain')") == batch


def test_an_event_to_be_retried_comes_back_to_the_members(queue: CoopQueue) -> None:
    queue.fill("1")
    batch = queue.next("a")
    queue.one("select pgq.event_retry(%s, ev_id, 0) from pgq.get_batch_events(%s)", batch, batch)
    assert queue.finish(batch) == 1
    assert queue.one("select pgq.maint_retry_events()") == 1
    queue.fill("2")
    retried = queue.connection.execute(
        "select ev_data, ev_retry from pgq.get_batch_events(%s)", [queue.next("b")]
    )
    assert retried.fetchall() == [("1", 1), ("2", None)]


# ---------------------------------------------------------------------------------------------- several sessions


def test_two_sessions_that_ask_at_the_same_time_get_different_batches(
    queue: CoopQueue, log_database: str
) -> None:
    queue.fill("1", "2")
    with (
        another_session(log_database) as one,
        another_session(log_database) as two,
        ThreadPoolExecutor() as pool,
    ):
        first = one.next("a")
        asking = pool.submit(two.next, "b")
        queue.await_blocked(two.connection)
        one.connection.commit()
        second = asking.result()
        two.connection.commit()
    assert [queue.datas(first), queue.datas(second)] == [["1"], ["2"]]


def test_a_session_that_gives_up_its_transaction_gives_the_batch_back(
    queue: CoopQueue, log_database: str
) -> None:
    queue.fill("1")
    with another_session(log_database) as session:
        assert session.next("a") is not None
    assert queue.datas(queue.next("b")) == ["1"]


def test_a_member_whose_batch_is_just_being_finished_gets_nothing_yet(
    queue: CoopQueue, log_database: str
) -> None:
    queue.fill("1", "2")
    batch = queue.next("a")
    with another_session(log_database) as finishing:
        assert finishing.finish(batch) == 1
        assert queue.next("a") is None
        finishing.connection.commit()
    assert queue.datas(queue.next("a")) == ["2"]


# ---------------------------------------------------------------------------------------------------- take-over


def test_the_batch_of_a_dead_member_is_taken_over_under_a_fresh_id(queue: CoopQueue) -> None:
    queue.fill("1", "2")
    old = queue.next("a")
    assert queue.take_over("b") != old
    queue.finish(queue.next("b"))
    queue.die("a")
    taken = queue.take_over("b")
    assert taken is not None
    assert taken != old
    assert queue.datas(taken) == ["1"]
    assert queue.finish(taken) == 1
    assert queue.take_over("b") is None


def test_whoever_finishes_too_late_gets_0_and_changes_nothing(queue: CoopQueue) -> None:
    queue.fill("1")
    old = queue.next("a")
    queue.die("a")
    taken = queue.take_over("b")
    assert queue.finish(old) == 0
    assert queue.warnings == [f"coop_finish_batch: batch {old} not found"]
    with pytest.raises(errors.RaiseException, match="batch not found"):
        queue.datas(old)
    assert queue.take_over("b") == taken
    assert queue.datas(taken) == ["1"]


@pytest.mark.every_version
def test_whoever_retries_an_event_too_late_is_told_so(queue: CoopQueue) -> None:
    queue.fill("1")
    old = queue.next("a")
    queue.die("a")
    queue.take_over("b")
    with pytest.raises(errors.RaiseException):
        queue.one("select pgq.event_retry(%s, 1, 0)", old)


def test_a_member_that_was_taken_over_leaves_no_name_and_may_come_back(queue: CoopQueue) -> None:
    queue.fill("1", "2")
    queue.next("a")
    queue.die("a")
    queue.take_over("b")
    assert queue.names() == ["c", "c.b"]
    assert queue.datas(queue.next("a")) == ["2"]
    assert queue.names() == ["c", "c.a", "c.b"]


def test_a_dead_member_without_a_batch_is_removed(queue: CoopQueue) -> None:
    queue.die("a")
    assert queue.take_over("b") is None
    assert queue.names() == ["c", "c.b"]


def test_a_member_that_asks_is_alive(queue: CoopQueue) -> None:
    queue.die("a")
    assert queue.take_over("a") is None
    assert queue.last_seen("a") == 0


def test_nobody_is_dead_unless_the_caller_says_when(queue: CoopQueue) -> None:
    queue.fill("1")
    batch = queue.next("a")
    queue.die("a")
    assert queue.next("b") is None
    assert queue.next("a") == batch


@pytest.mark.every_version
def test_a_heartbeat_keeps_the_batch(queue: CoopQueue) -> None:
    queue.fill("1")
    batch = queue.next("a")
    queue.die("a")
    assert queue.touch("a") == 1
    assert queue.last_seen("a") == 0
    assert queue.take_over("b") is None
    assert queue.finish(batch) == 1


def test_a_heartbeat_tells_a_member_that_it_was_taken_over(queue: CoopQueue) -> None:
    queue.fill("1")
    queue.next("a")
    queue.die("a")
    queue.take_over("b")
    assert queue.touch("a") == 0
    assert queue.touch("unknown") == 0


def test_a_heartbeat_is_for_members_only(queue: CoopQueue) -> None:
    queue.one("select pgq.register_consumer('q', 'c.own')")
    assert queue.touch("own") == 0


def test_whoever_is_just_finishing_is_not_taken_over(queue: CoopQueue, log_database: str) -> None:
    queue.fill("1", "2")
    batch = queue.next("a")
    queue.die("a")
    with another_session(log_database) as finishing:
        assert finishing.finish(batch) == 1
        taken = queue.take_over("b")
        assert queue.datas(taken) == ["2"]
        finishing.connection.commit()
    assert queue.finish(taken) == 1
    assert queue.take_over("b") is None


def test_a_finish_waits_for_the_take_over_and_gets_0(queue: CoopQueue, log_database: str) -> None:
    queue.fill("1")
    old = queue.next("a")
    queue.die("a")
    with another_session(log_database) as taking, another_session(log_database) as late:
        assert taking.take_over("b") is not None
        with ThreadPoolExecutor() as pool:
            finishing = pool.submit(late.finish, old)
            queue.await_blocked(late.connection)
            taking.connection.commit()
            assert finishing.result() == 0
    assert queue.datas(queue.next("b")) == ["1"]


def test_of_two_that_take_over_one_gets_the_batch(queue: CoopQueue, log_database: str) -> None:
    queue.fill("1")
    queue.next("a")
    queue.die("a")
    with (
        another_session(log_database) as one,
        another_session(log_database) as two,
        ThreadPoolExecutor() as pool,
    ):
        assert one.take_over("b") is not None
        asking = pool.submit(two.take_over, "d")
        queue.await_blocked(two.connection)
        one.connection.commit()
        assert asking.result() is None


def test_how_far_a_batch_was_worked_off_goes_along(queue: CoopQueue) -> None:
    queue.fill("1")
    old = queue.next("a")
    columns = "bp_batch, bp_event, bp_parts, bp_part"
    insert = f"insert into pgq.batch_position ({columns}) values (%s, 41, 2, 0), (%s, 42, 2, 1)"
    queue.connection.execute(insert.encode(), [old, old])
    queue.die("a")
    taken = queue.take_over("b")
    assert queue.column(
        "select bp_event from pgq.batch_position where bp_batch = %s order by bp_part", taken
    ) == [41, 42]
    assert queue.unregister("b", 1) == 1
    again = queue.next("a")
    assert queue.column(
        "select bp_event from pgq.batch_position where bp_batch = %s order by bp_part", again
    ) == [41, 42]
    assert queue.finish(again) == 1
    assert queue.column("select bp_event from pgq.batch_position") == []


def test_what_a_member_gave_up_on_outlives_it(queue: CoopQueue) -> None:
    insert = "insert into pgq.dead_letter (dl_queue, dl_consumer, ev_id, ev_time) select 1, co_id, 1, now()"
    queue.connection.execute(f"{insert} from pgq.consumer where co_name = 'c.a'".encode())
    assert queue.unregister("a") == 1
    owner = "select co_name from pgq.dead_letter join pgq.consumer on co_id = dl_consumer"
    assert queue.connection.execute(owner.encode()).fetchall() == [("c",)]


# ------------------------------------------------------------------------------------------------- handing back


@every("batch_handling", [0, 2, None])
def test_a_member_with_a_batch_is_not_unregistered_by_accident(
    queue: CoopQueue, batch_handling: int | None
) -> None:
    queue.fill("1")
    batch = queue.next("a")
    with pytest.raises(errors.RaiseException, match="subconsumer has active batch"):
        queue.unregister("a", batch_handling)
    assert queue.next("a") == batch


@pytest.mark.every_version
def test_a_batch_that_is_handed_back_goes_to_whoever_asks_next(queue: CoopQueue) -> None:
    queue.fill("1", "2")
    old = queue.next("a")
    assert queue.unregister("a", 1) == 1
    assert queue.unregister("a", 1) == 0
    given = queue.next("b")
    assert given != old
    assert queue.datas(given) == ["1"]
    assert queue.finish(old) == 0
    assert queue.finish(given) == 1
    assert queue.datas(queue.next("b")) == ["2"]
    assert queue.names() == ["c", "c.b"]


def test_batches_that_were_handed_back_go_out_in_their_order(queue: CoopQueue) -> None:
    queue.register("d")
    queue.fill("1", "2", "3", "4")
    for member in ("a", "b", "d"):
        queue.next(member)
    for member in ("b", "d", "a"):
        assert queue.unregister(member, 1) == 1
    assert list(emptied(queue, "e")) == ["1", "2", "3", "4"]
    assert queue.names() == ["c", "c.e"]


def test_a_member_that_handed_its_batch_back_may_come_back_for_it(queue: CoopQueue) -> None:
    queue.fill("1")
    queue.next("a")
    queue.unregister("a", 1)
    assert queue.register("a") == 1
    assert queue.datas(queue.next("a")) == ["1"]


def test_a_batch_that_waits_for_somebody_holds_its_events(queue: CoopQueue) -> None:
    queue.fill("1", "2", "3")
    position = queue.one("select min(sub_last_tick) from pgq.subscription")
    queue.next("a")
    queue.finish(queue.next("b"))
    queue.unregister("a", 1)
    assert queue.one("select min(sub_last_tick) from pgq.subscription") == position


def test_handing_back_waits_for_who_is_just_finishing(queue: CoopQueue, log_database: str) -> None:
    queue.fill("1")
    batch = queue.next("a")
    with another_session(log_database) as finishing, another_session(log_database) as other:
        assert finishing.finish(batch) == 1
        with ThreadPoolExecutor() as pool:
            ending = pool.submit(other.unregister, "a", 1)
            queue.await_blocked(other.connection)
            finishing.connection.commit()
            assert ending.result() == 1
        other.connection.commit()
    assert queue.take_over("b") is None


# --------------------------------------------------------------------------------------------------- the rest


@pytest.mark.every_version
def test_readers_may_call_it_without_rights_on_the_tables_and_others_may_not(queue: CoopQueue) -> None:
    queue.fill("1")
    queue.connection.execute("set role pgq_reader")
    assert queue.register("r") == 1
    batch = queue.next("r")
    assert queue.touch("r") == 1
    assert queue.finish(batch) == 1
    assert queue.unregister("r", 1) == 1
    with pytest.raises(errors.InsufficientPrivilege):
        queue.one("select pgq_coop._consumer_id('x')")
    queue.connection.execute("set role pg_monitor")
    assert queue.one("select pgq_coop.version()")
    with pytest.raises(errors.InsufficientPrivilege):
        queue.next("a")


def test_it_names_the_release_it_is_compatible_with(queue: CoopQueue) -> None:
    assert queue.one("select pgq_coop.version()") == "3.4"
