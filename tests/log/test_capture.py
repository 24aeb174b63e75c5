"""capture_table, release_table, maint_capture: triggers and generated code that stay right while tables change."""

from __future__ import annotations

import json
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import errors

from rowbus.database.postgresql.connection import Session
from rowbus.log import catalog as log_catalog
from rowbus.log.diagnosis import CaptureFault, LostCapture, diagnose_captures, diagnose_lost_captures
from rowbus.transport.queues.diagnosis import Level
from tests.fixtures.every import every
from tests.fixtures.processes import await_blocked
from tests.log.trigger_cases import READ, prepare

TABLE = "create table orders (id int primary key, note text, total numeric(10, 2))"
STATUS = "select table_name, trigger_name, format, generated from pgq.capture_status order by 1, 2"


@pytest.fixture
def captured(pgq: psycopg.Connection) -> psycopg.Connection:
    """Give a database where public.orders is captured into the queue q and events are only noted down."""
    pgq.execute(
        "insert into pgq.queue (queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq) values ('q', '', '', '')"
    )
    pgq.execute(TABLE)
    prepare(pgq)
    pgq.execute("select pgq.capture_table('orders', 'q')")
    return pgq


def events(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(READ).fetchall()


def data(connection: psycopg.Connection) -> list[str]:
    return [event[2] for event in events(connection)]


@pytest.fixture(autouse=True)
def _as_on_a_managed_server(pgq: psycopg.Connection) -> None:
    """Have no event trigger, which only a superuser may create; test_capture_at_once.py has it."""
    pgq.execute("drop event trigger if exists pgq_table_changed")


def generated(connection: psycopg.Connection) -> dict[str, str]:
    return {trigger: state for _table, trigger, _format, state in connection.execute(STATUS)}


def sabotage(connection: psycopg.Connection) -> None:
    """Let generated code say so, so that a test sees whether it ran."""
    for name, body in connection.execute(
        "select cc_function, prosrc from pgq.capture_code join pg_proc on proname = cc_function"
    ).fetchall():
        said = body.replace("'public.orders'", "'generated'").replace("'", "''")
        connection.execute(
            f"create or replace function pgq.{name}(i_op text, i_new anyelement, i_old anyelement, i_args text [])"
            f" returns text [] language sql stable as '{said}'"
        )


def test_a_captured_table_puts_every_kind_of_change_into_its_queue(captured: psycopg.Connection) -> None:
    captured.execute("insert into orders values (1, 'a', 1)")
    captured.execute("update orders set note = 'b'")
    captured.execute("delete from orders")
    captured.execute("truncate orders")

    written = events(captured)

    assert [json.loads(event[1])["op"] for event in written] == ["INSERT", "UPDATE", "DELETE", "TRUNCATE"]
    assert {event[0] for event in written} == {"q"}
    assert written[1][2] == '{"id":1,"note":"b","total":"1.00"}'


@every(
    "format_name, expected",
    [
        ("json", '{"id":1,"note":"a b","total":"1.00"}'),
        ("url", "id=1&note=a+b&total=1.00"),
        ("sql", "(id,note,total) values ('1','a b','1.00')"),
    ],
)
def test_a_table_is_captured_in_the_format_asked_for(
    captured: psycopg.Connection, format_name: str, expected: str
) -> None:
    captured.execute("select pgq.capture_table('orders', 'q', %s)", [format_name])

    captured.execute("delete from orders; delete from captured; insert into orders values (1, 'a b', 1)")

    assert data(captured) == [expected]


def test_changes_of_a_captured_table_are_written_by_generated_code(captured: psycopg.Connection) -> None:
    sabotage(captured)

    captured.execute("insert into orders values (1, 'a', 1)")
    captured.execute("update orders set note = 'b'")
    captured.execute("delete from orders")

    assert [event[3] for event in events(captured)] == ["generated"] * 3


def test_capturing_again_changes_nothing_or_to_what_is_asked(captured: psycopg.Connection) -> None:
    before = captured.execute("select array_agg(oid) from pg_trigger where not tgisinternal").fetchone()
    captured.execute("select pgq.capture_table('orders', 'q')")
    assert (
        captured.execute("select array_agg(oid) from pg_trigger where not tgisinternal").fetchone() == before
    )

    captured.execute("select pgq.capture_table('orders', 'q', 'url', '{ignore=note}')")
    captured.execute("insert into orders values (1, 'a', 1)")
    assert data(captured) == ["id=1&total=1.00"]
    assert generated(captured) == {"capture_q": "yes"}


def test_a_released_table_is_captured_no_more_and_leaves_no_code(captured: psycopg.Connection) -> None:
    assert captured.execute("select pgq.release_table('orders', 'q')").fetchone() == (2,)

    captured.execute("insert into orders values (1)")
    captured.execute("truncate orders")

    assert events(captured) == []
    assert captured.execute("select pgq.release_table('orders', 'q')").fetchone() == (0,)
    assert captured.execute("select count(*) from pg_proc where proname like 'captured\\_%'").fetchone() == (
        0,
    )


@every(
    "arguments, error, message",
    [
        ("'orders', 'nosuch'", errors.UndefinedTable, "queue nosuch does not exist"),
        ("'orders', 'q', 'xml'", errors.InvalidParameterValue, "unknown format xml"),
        ("'orders', 'q', 'json', '{bad}'", errors.InvalidParameterValue, "unknown argument bad"),
        ("'orders', 'q', 'json', '{backup,bad=1}'", errors.InvalidParameterValue, "unknown argument bad=1"),
        ("'orders', 'q', 'json', '{SKIP}'", errors.InvalidParameterValue, "SKIP needs a BEFORE trigger"),
        ("'keyless', 'q', 'sql'", errors.InvalidParameterValue, "table public.keyless has no primary key"),
        ("'nosuch', 'q'", errors.UndefinedTable, "nosuch"),
        (
            "'orders', 'q', 'json', '{as-root}'",
            errors.InvalidParameterValue,
            "orders is no partitioned table",
        ),
        (
            "'orders', 'q', 'json', '{mask=total:hash}'",
            errors.InvalidParameterValue,
            "total .* cannot hold a mask",
        ),
        (
            "'orders', 'q', 'json', '{mask=note:md5}'",
            errors.InvalidParameterValue,
            "mask=note:md5 is no mask",
        ),
        ("'orders', 'q', 'json', '{mask=noet:null}'", errors.UndefinedColumn, "no column noet .mask=."),
        ("'orders', 'q', 'json', '{mask=id:null}'", errors.InvalidParameterValue, "column id is of the key"),
        ("'orders', null", errors.InvalidParameterValue, "must not be NULL"),
        ("'orders', 'q', 'json', '{}', 'mine'", errors.DuplicateObject, "has another trigger mine"),
        (
            "'orders', 'q', 'url', '{ignore=noet}'",
            errors.UndefinedColumn,
            "no column noet .ignore=., but id, note, total",
        ),
        ("'orders', 'q', 'sql', '{\"ignore=x, note,ID\"}'", errors.UndefinedColumn, "has no column x, ID "),
        ("'odd', 'q', 'json', '{ignore=b}'", errors.UndefinedColumn, "public.odd has no column b "),
        ("'orders', 'q', 'json', '{\"pkey=id,i d\"}'", errors.UndefinedColumn, "no column i d .pkey=., but"),
        ("'orders', 'q', 'json', '{\"when=totl > 5\"}'", errors.UndefinedColumn, "column .totl. does not"),
        ("'orders', 'q', 'json', '{\"ev_extra3=note || nope\"}'", errors.UndefinedColumn, "column .nope. "),
    ],
)
def test_what_cannot_be_captured_is_refused_with_a_reason(
    captured: psycopg.Connection, arguments: str, error: type[Exception], message: str
) -> None:
    captured.execute(
        'create table if not exists keyless (id int); create table if not exists odd ("a b" int primary key)'
    )
    captured.execute(
        "create or replace trigger mine before update on orders for each row "
        "execute function suppress_redundant_updates_trigger()"
    )

    with pytest.raises(error, match=message):
        captured.execute(f"select pgq.capture_table({arguments})")


@every(
    "arguments", ["ignore=note", "ignore= note ,\ttotal", "ignore=", "when=total > f(id)", "pkey=id, note"]
)
def test_arguments_that_name_columns_are_let_pass(captured: psycopg.Connection, arguments: str) -> None:
    """A function is the writer's, looked up in the writer's path."""
    captured.execute("create or replace function f(int) returns int language sql as 'select $1'")
    captured.execute("select pgq.capture_table('orders', 'q', 'json', %s)", [[arguments]])
    captured.execute("delete from orders; insert into orders values (1, 'a', 5)")


@every(
    "arguments, key",
    [
        ("{}", ["id", "note"]),
        ("{ignore=note,backup}", ["id"]),
        ('{"when=id is distinct from 9"}', ["id", "note"]),
    ],
)
def test_the_key_of_a_table_without_one_is_the_whole_row(
    captured: psycopg.Connection, arguments: str, key: list[str]
) -> None:
    captured.execute("drop table if exists keyless")
    captured.execute(
        "create table keyless (id int, note text, twice int generated always as (id * 2) stored)"
    )
    captured.execute("select pgq.capture_table('keyless', 'q', 'json', %s)", [arguments])
    for code in ("select pgq.maint_capture()", "update pgq.capture_code set cc_shape = ''"):
        captured.execute(
            f"truncate keyless; {code}; select pgq.replace_generated_event(); delete from captured"
        )
        captured.execute("insert into keyless values (1, null)")
        captured.execute("update keyless set id = 2")
        captured.execute("delete from keyless")
        types = [json.loads(event[1]) for event in events(captured)]
        assert [entry["op"] for entry in types] == ["INSERT", "DELETE", "INSERT", "DELETE"]
        assert all(entry["pkey"] == key for entry in types)

    captured.execute("alter table keyless add primary key (id); insert into keyless values (3, 'a')")
    assert json.loads(events(captured)[-1][1])["pkey"] == ["id"]


@pytest.mark.parametrize("form", ["json", "url"])
def test_a_table_that_loses_its_key_goes_on_by_its_whole_row(captured: psycopg.Connection, form: str) -> None:
    captured.execute("create table losing (id int primary key, note text)")
    captured.execute("select pgq.capture_table('losing', 'q', %s)", [form])
    captured.execute("insert into losing values (1, 'a')")
    captured.execute("alter table losing drop constraint losing_pkey")
    captured.execute("update losing set note = 'b'")
    captured.execute("delete from losing")
    told = {
        "json": ['{"id":1,"note":"a"}', '{"id":1,"note":"a"}', '{"id":1,"note":"b"}', '{"id":1,"note":"b"}'],
        "url": ["id=1&note=a", "id=1&note=a", "id=1&note=b", "id=1&note=b"],
    }[form]
    assert [it for it in data(captured) if '"before"' not in it][-4:] == told


def test_what_replication_applies_is_captured_where_it_is_asked_for(captured: psycopg.Connection) -> None:
    captured.execute(PARTITIONED)
    for arguments, expected in (("{}", 0), ("{always}", 6), ("{always,as-root}", 4), ("{}", 0)):
        captured.execute("select pgq.capture_table('parts', 'q', 'json', %s)", [arguments])
        captured.execute("set session_replication_role = replica")
        captured.execute("insert into parts values (1, 'a'), (1, 'c'); truncate parts_a; truncate parts")
        captured.execute("reset session_replication_role")
        assert len(events(captured)) == expected


def test_a_log_is_not_dropped_under_its_captures(captured: psycopg.Connection) -> None:
    captured.execute(PARTITIONED)
    captured.execute("select pgq.create_queue('other'), pgq.capture_table('parts', 'other')")
    captured.execute("select pgq.capture_table('orders', 'other', 'url', '{insert-only}')")

    with pytest.raises(errors.RaiseException, match=r"captured into it: public.orders, public.parts\n"):
        captured.execute("select pgq.drop_queue('other')")

    captured.execute("select pgq.drop_queue('other', true)")
    captured.execute("insert into parts values (1, 'a'); truncate parts; insert into orders values (1)")
    assert [event[0] for event in events(captured)] == ["q"]


def test_a_table_without_a_key_is_captured_for_its_new_rows_or_by_a_key_that_is_named(
    captured: psycopg.Connection,
) -> None:
    captured.execute("create table keyless (id int)")
    captured.execute("select pgq.capture_table('keyless', 'q', 'json', '{insert-only}')")
    captured.execute("insert into keyless values (1)")
    captured.execute("update keyless set id = 2")
    captured.execute("truncate keyless")
    assert data(captured) == ['{"id":1}']

    captured.execute("select pgq.capture_table('keyless', 'q', 'json', '{pkey=id}')")
    captured.execute("insert into keyless values (3)")
    captured.execute("delete from keyless")
    assert data(captured) == ['{"id":3}', '{"id":3}']


def test_maintenance_makes_code_for_any_trigger_and_removes_what_no_trigger_uses(
    pgq: psycopg.Connection,
) -> None:
    pgq.execute(TABLE)
    pgq.execute("create trigger t1 after insert on orders for each row execute function pgq.sqltriga('q')")
    assert generated(pgq) == {"t1": "no"}

    assert pgq.execute("select pgq.maint_capture()").fetchone() == (1,)
    assert generated(pgq) == {"t1": "yes"}
    assert pgq.execute("select pgq.maint_capture()").fetchone() == (0,)

    pgq.execute("drop table orders")
    assert pgq.execute("select pgq.maint_capture()").fetchone() == (0,)
    assert pgq.execute("select pgq.maint_capture()").fetchone() == (1,)
    assert pgq.execute("select count(*) from pgq.capture_code").fetchone() == (0,)


def test_who_writes_a_row_does_not_miss_the_code_of_another_table_that_maintenance_removes_meanwhile(
    captured: psycopg.Connection, log_database: str
) -> None:
    captured.execute("create table bills (id int primary key)")
    captured.execute("select pgq.capture_table('bills', 'q')")
    captured.execute(
        """create or replace function pgq.row_table(i_row anyelement) returns regclass language sql immutable as $$
        select t.typrelid::regclass from (select pg_advisory_xact_lock(7)) as planning, pg_type as t
        where t.oid = pg_typeof(i_row) $$"""
    )
    maintain, removed = "select pgq.maint_capture()", []
    with (
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(log_database) as holder,
        psycopg.connect(log_database) as writer,
    ):
        holder.execute("select pg_advisory_xact_lock(7)")
        writing = thread.submit(writer.execute, "insert into orders values (1)")
        await_blocked(captured, writer)
        captured.execute("drop table bills")
        removed += [*captured.execute(maintain), *captured.execute(maintain)]
        holder.rollback()
        writing.result()
        writer.commit()

    assert data(captured)[-1] == '{"id":1,"note":null,"total":null}'
    assert [*removed, *captured.execute(maintain)] == [(0,), (0,), (1,)]


@every(
    "change, insert, expected",
    [
        ("add c int default 7", "default values", '{"id":9,"note":null,"total":null,"c":7}'),
        ("rename note to remark", "(remark) values ('a')", '{"id":9,"remark":"a","total":null}'),
        ("drop note", "default values", '{"id":9,"total":null}'),
        ("alter total type text", "(total) values ('1')", '{"id":9,"note":null,"total":"1"}'),
        ("alter total type int", "(total) values (1)", '{"id":9,"note":null,"total":1}'),
        ("rename id to note_id", "default values", '{"note_id":9,"note":null,"total":null}'),
    ],
)
def test_a_change_of_columns_shows_in_the_very_next_event(
    captured: psycopg.Connection, change: str, insert: str, expected: str
) -> None:
    for by_another_session in (False, True):
        captured.execute(f"drop table orders; {TABLE}; delete from captured")
        captured.execute("select pgq.capture_table('orders', 'q')")
        captured.execute("alter table orders alter id set default 9")
        captured.execute("prepare put as insert into orders values (1)")
        captured.execute("execute put")
        if by_another_session:
            with psycopg.connect(captured.info.dsn, autocommit=True) as other:
                other.execute(f"alter table orders {change}")
            captured.execute(f"insert into orders {insert}")
        else:
            with captured.transaction():
                captured.execute("delete from orders")
                captured.execute("execute put")
                captured.execute(f"alter table orders {change}")
                captured.execute(f"insert into orders {insert}")
        captured.execute("deallocate put")

        assert data(captured)[-1] == expected
        assert generated(captured) == {"capture_q": "stale"}
        captured.execute("select pgq.maint_capture()")
        assert generated(captured) == {"capture_q": "yes"}
        captured.execute("delete from orders")
        assert data(captured)[-1] == expected


def test_a_change_of_the_key_or_the_name_shows_in_the_very_next_event(captured: psycopg.Connection) -> None:
    captured.execute("insert into orders values (1, 'a', 1)")
    captured.execute("alter table orders drop constraint orders_pkey, add primary key (note, id)")
    captured.execute("update orders set total = 2")
    captured.execute("alter table orders rename to renamed")
    captured.execute("update renamed set total = 3")
    captured.execute("create schema elsewhere")
    captured.execute("alter table renamed set schema elsewhere")
    captured.execute("update elsewhere.renamed set total = 4")

    types = [json.loads(event[1]) for event in events(captured)]

    assert [(entry["table"], entry["pkey"]) for entry in types] == [
        (["public", "orders"], ["id"]),
        (["public", "orders"], ["note", "id"]),
        (["public", "renamed"], ["note", "id"]),
        (["elsewhere", "renamed"], ["note", "id"]),
    ]


def test_a_rolled_back_change_of_columns_is_forgotten(captured: psycopg.Connection) -> None:
    captured.execute("insert into orders values (1)")
    with captured.transaction(force_rollback=True):
        captured.execute("alter table orders add c int")
        captured.execute("insert into orders values (2)")
    captured.execute("insert into orders values (3)")

    assert data(captured) == ['{"id":1,"note":null,"total":null}', '{"id":3,"note":null,"total":null}']


def test_a_captured_table_can_be_dropped(captured: psycopg.Connection) -> None:
    captured.execute("drop table orders")

    assert generated(captured) == {}


def test_code_of_another_table_with_the_same_number_is_not_used(captured: psycopg.Connection) -> None:
    captured.execute("create table other (a int primary key)")
    captured.execute(
        "create trigger t after insert on other for each row execute function pgq.jsontriga('q')"
    )
    captured.execute("update pgq.capture_code set cc_table = 'other'::regclass")
    captured.execute("select pgq.replace_generated_event()")

    captured.execute("insert into other values (1)")

    assert data(captured) == ['{"a":1}']


def test_a_user_without_rights_on_pgq_but_insert_event_writes_by_generated_code(
    captured: psycopg.Connection,
) -> None:
    sabotage(captured)
    captured.execute("create role shopkeeper")
    try:
        captured.execute("grant pgq_writer to shopkeeper")
        captured.execute("grant insert on orders to shopkeeper")
        captured.execute("grant insert, select on captured to shopkeeper")
        captured.execute("grant usage on sequence captured_id_seq to shopkeeper")
        captured.execute("set role shopkeeper")
        captured.execute("insert into orders values (1)")
        captured.execute("reset role")

        assert [event[3] for event in events(captured)] == ["generated"]
    finally:
        captured.execute("reset role")
        captured.execute("drop owned by shopkeeper")
        captured.execute("drop role shopkeeper")


def test_a_table_of_many_columns_is_captured(captured: psycopg.Connection) -> None:
    columns = [f"c{number}" for number in range(400)]
    captured.execute(
        f"create table wide (id int primary key, {', '.join(f'{name} int' for name in columns)})"
    )
    for format_name in ("json", "url", "sql"):
        captured.execute("select pgq.capture_table('wide', 'q', %s)", [format_name])
        captured.execute("insert into wide (id, c399) values (1, 7)")
        captured.execute("update wide set c1 = 5")
        captured.execute("delete from wide")
        assert len(events(captured)) == 3
    assert set(generated(captured).values()) == {"yes"}


PARTITIONED = """
    create table parts (id int, area text, primary key (id, area)) partition by list (area);
    create table parts_a partition of parts for values in ('a');
    create table parts_b (area text, id int, primary key (id, area)) partition by list (area);
    alter table parts attach partition parts_b for values in ('b', 'c');
    create table parts_c partition of parts_b for values in ('c')
"""
LATER = """
    create table parts_d (id int not null, area text not null);
    alter table parts attach partition parts_d for values in ('d')
"""


def operations(connection: psycopg.Connection) -> list[tuple[str, str]]:
    return [(json.loads(event[1])["op"], json.loads(event[1])["table"][1]) for event in events(connection)]


@every(
    "arguments, of_a_part, of_all",
    [
        ("{}", ["{0}: TRUNCATE"], {"parts", "parts_a", "parts_c", "parts_d"}),
        ("{as-root}", ["parts: DELETE", "parts: DELETE"], {"parts"}),
        ("{as-root,as-pgq,ignore=area}", ["parts: DELETE", "parts: DELETE"], {"parts"}),
    ],
)
def test_partitions_that_are_truncated_are_told_of_those_attached_later_too(
    captured: psycopg.Connection, arguments: str, of_a_part: list[str], of_all: set[str]
) -> None:
    captured.execute(PARTITIONED)
    captured.execute("select pgq.capture_table('parts', 'q', 'json', '{}')")
    captured.execute("select pgq.capture_table('parts', 'q', 'json', %s)", [arguments])
    captured.execute(LATER)
    captured.execute("select pgq.maint_capture()")
    for part, truncated in (("parts_a", "parts_a"), ("parts_c", "parts_b"), ("parts_d", "parts_d")):
        captured.execute("insert into parts values (1, %s), (2, %s)", [part[-1], part[-1]])
        captured.execute(f"truncate {truncated}")
        told = [f"{table}: {operation}" for operation, table in operations(captured)]
        assert told[2:] == [line.format(part) for line in of_a_part]
        assert told[0].partition(":")[0] in of_all
    captured.execute("insert into parts values (1, 'a')")
    captured.execute("truncate parts")
    assert {table for operation, table in operations(captured) if operation == "TRUNCATE"} == of_all

    captured.execute("select pgq.release_table('parts', 'q')")
    captured.execute("insert into parts values (1, 'a')")
    captured.execute("truncate parts_a; truncate parts; drop table parts")
    assert events(captured) == []


def test_maintenance_makes_no_trigger_again_that_the_root_has_disabled(captured: psycopg.Connection) -> None:
    captured.execute(PARTITIONED)
    captured.execute("select pgq.capture_table('parts', 'q', 'json', '{}')")
    captured.execute("alter table only parts disable trigger all")

    made = [captured.execute("select pgq.follow_partitions()").fetchone() for _ in range(2)]

    assert made[1] == (0,)


def test_the_root_is_named_as_it_is_called_now(captured: psycopg.Connection) -> None:
    captured.execute(PARTITIONED)
    captured.execute("select pgq.capture_table('parts', 'q', 'url', '{as-root}')")
    captured.execute("insert into parts values (1, 'a')")
    captured.execute("alter table parts rename to pieces")
    captured.execute("insert into pieces values (2, 'c')")
    captured.execute("update pgq.capture_code set cc_shape = ''; select pgq.replace_generated_event()")
    captured.execute("insert into pieces values (3, 'c')")
    captured.execute("alter table pieces rename to parts")
    captured.execute("insert into parts values (4, 'c')")

    names = [event[3] for event in events(captured)]
    assert names == ["public.parts", "public.pieces", "public.pieces", "public.parts"]


def test_sessions_that_write_while_code_is_made_notice_nothing(captured: psycopg.Connection) -> None:
    failures: list[BaseException] = []

    def write(first: int) -> None:
        try:
            with psycopg.connect(captured.info.dsn, autocommit=True) as connection:
                for number in range(first, first + 150):
                    connection.execute("insert into orders values (%s, 'n', 1)", [number])
        except BaseException as error:  # noqa: BLE001 - the test's thread asserts on it
            failures.append(error)

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 1000)]
    for writer in writers:
        writer.start()
    for count in range(10):
        captured.execute(f"create table t{count} (id int primary key)")
        captured.execute(f"select pgq.capture_table('t{count}', 'q')")
    for writer in writers:
        writer.join()

    assert failures == []
    assert len(events(captured)) == 300


NO_FAULT = CaptureFault("q", "orders", is_hidden=False, settings=[], disabled=[], unreplicated=[])


def test_what_hides_captured_rows_or_changes_their_text_is_found(captured: psycopg.Connection) -> None:
    owner, viewer = f"owner_{secrets.token_hex(4)}", f"viewer_{secrets.token_hex(4)}"
    session = Session(captured)
    captured.execute(f"create role {owner}; create role {viewer}".encode())
    captured.execute("select pgq.capture_table('orders', 'q', 'json', array['as-pgq'])")
    try:
        captured.execute(
            f"""
            grant pgq_reader to {viewer};
            alter role {owner} in database {captured.info.dbname} set datestyle to 'German';
            alter database {captured.info.dbname} set extra_float_digits to 1;
            """.encode()
        )
        assert session.run(log_catalog.capture_faults()) == [
            NO_FAULT._replace(settings=[f"role {owner} has DateStyle=German"])
        ]
        captured.execute("select pgq.capture_table('orders', 'q', 'json', array['exact'])")
        assert session.run(log_catalog.capture_faults()) == []
        captured.execute(f"alter table orders enable row level security; set role {viewer}".encode())
        (hidden,) = session.run(log_catalog.capture_faults())
    finally:
        captured.execute("reset role")
        for role in (owner, viewer):
            captured.execute(f"drop owned by {role}; drop role {role}".encode())
    assert hidden == NO_FAULT._replace(is_hidden=True)
    assert [finding.level for finding in diagnose_captures([hidden])] == [Level.WARN]


@pytest.mark.parametrize("state", ["disable", "enable replica"])
@pytest.mark.parametrize("trigger", ["capture_q", "capture_q_truncate"])
def test_a_trigger_that_fires_no_more_is_found(
    captured: psycopg.Connection, state: str, trigger: str
) -> None:
    session = Session(captured)
    assert session.run(log_catalog.capture_faults()) == []
    captured.execute(f"alter table orders {state} trigger {trigger}".encode())

    (fault,) = session.run(log_catalog.capture_faults())
    (finding,) = diagnose_captures([fault])
    assert fault == NO_FAULT._replace(disabled=[trigger])
    assert f"{trigger} of orders is disabled" in finding.text
    captured.execute(finding.advice.split("`")[1].encode())
    assert session.run(log_catalog.capture_faults()) == []


@pytest.mark.parametrize("through", ["setting", "subscription"])
def test_triggers_that_do_not_fire_for_what_replication_writes_are_found(
    captured: psycopg.Connection, through: str
) -> None:
    session = Session(captured)
    if through == "setting":
        name = captured.info.dbname
        captured.execute(f"alter database {name} set session_replication_role to replica".encode())
    else:
        captured.execute(
            "insert into pg_subscription_rel values (1, 'orders'::regclass, 'r', null)"  # as one that began
        )

    (fault,) = session.run(log_catalog.capture_faults())
    assert fault == NO_FAULT._replace(unreplicated=["capture_q", "capture_q_truncate"])
    for finding in diagnose_captures([fault]):
        captured.execute(finding.advice.split("`")[1].encode())
    assert session.run(log_catalog.capture_faults()) == []


def test_a_table_that_was_made_anew_without_capture_is_found(captured: psycopg.Connection) -> None:
    session = Session(captured)
    assert session.run(log_catalog.lost_captures()) == []
    captured.execute("drop table orders")
    assert session.run(log_catalog.lost_captures()) == []

    captured.execute("create table orders (id int primary key)")
    lost = session.run(log_catalog.lost_captures())
    (finding,) = diagnose_lost_captures(lost)
    assert lost == [LostCapture("q", "orders")]
    assert "orders was captured into it until it was made anew" in finding.text
    assert "`rowbus log capture orders --log q`" in finding.advice

    captured.execute("select pgq.capture_table('orders', 'q')")
    assert session.run(log_catalog.lost_captures()) == []
    captured.execute("drop table orders; create table orders (id int primary key)")
    assert session.run(log_catalog.lost_captures()) == lost
    captured.execute("select pgq.release_table('orders', 'q')")
    assert session.run(log_catalog.lost_captures()) == []
