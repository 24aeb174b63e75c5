"""`rowbus queue`: queues are created, filled, listed, looked into and emptied as an operator would."""

from __future__ import annotations

import json
import os
import pty
import pwd
import re
import subprocess

import psycopg
import pytest

from rowbus.messages.address import QueueAddress
from tests.fixtures.command_line import Ask, CommandLine
from tests.fixtures.forked import ROWBUS

pytestmark = pytest.mark.one_version


def send(rowbus: CommandLine, *arguments: str, **options: str) -> None:
    done = rowbus("queue", "send", "Sales", *arguments, "--type", "Shop.PlaceOrder", **options)
    assert done.returncode == 0, done.stderr


def peeked(rowbus: CommandLine, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(rowbus("queue", "peek", *arguments, "--json").stdout)
    return found


@pytest.fixture
def sales(rowbus: CommandLine) -> CommandLine:
    assert rowbus("queue", "create", "Sales").returncode == 0
    return rowbus


# ------------------------------------------------------------------------------------------------------------ create


def test_create_says_what_it_created_and_what_was_there_already(rowbus: CommandLine) -> None:
    first = rowbus("queue", "create", "Sales", '"Shop.Sales"')
    second = rowbus("queue", "create", "Sales", "Billing")

    assert first.stdout.splitlines() == ['Created "public"."Sales".', 'Created "public"."Shop.Sales".']
    assert second.stdout.splitlines() == [
        '"public"."Sales" was there already.',
        'Created "public"."Billing".',
    ]


def test_create_makes_the_schema_only_when_asked_to(rowbus: CommandLine, ask: Ask) -> None:
    refused = rowbus("queue", "create", "Sales", "--schema", "shop")
    done = rowbus("queue", "create", "Sales", "--schema", "shop", "--create-schema")

    assert refused.returncode == 2
    assert "--create-schema" in refused.stderr
    assert done.stdout.splitlines() == ["Created the schema shop.", 'Created "shop"."Sales".']
    assert ask("select to_regclass('shop.\"Sales\"') is not null") == [(True,)]


def test_create_adds_the_extras_asked_for_to_a_queue_that_is_there(sales: CommandLine, ask: Ask) -> None:
    done = sales("queue", "create", "Sales", "--body-string", "--notify-trigger")

    assert done.stdout == (
        '"public"."Sales" was there already; it has the column bodystring and a notifying trigger now.\n'
    )
    assert ask("select count(*) from pg_trigger where tgrelid = '\"Sales\"'::regclass") == [(1,)]
    assert ask('select bodystring from "Sales"') == []


def test_a_name_that_cannot_be_a_queue_creates_none_of_the_others(rowbus: CommandLine, ask: Ask) -> None:
    assert rowbus("queue", "create", "Sales", "a.b").returncode == 2

    assert ask("select to_regclass('\"Sales\"')") == [(None,)]


# -------------------------------------------------------------------------------------------------------------- send


def test_a_message_sent_has_the_headers_and_the_body_that_were_given(sales: CommandLine) -> None:
    options = ["--header", "Shop=Kraków", "--header", "a=b=c", "--reply-to", "Billing", "--ttbr", "1.5h"]
    done = sales("queue", "send", "Sales", '{"id": 1}', "--type", "Shop.PlaceOrder", *options)

    message = peeked(sales, "Sales")[0]
    headers = message["headers"]
    assert isinstance(headers, dict)
    assert message["body"] == '{"id": 1}'
    assert message["expires"] is not None
    assert headers["Shop"] == "Kraków"
    assert headers["a"] == "b=c"
    assert headers["NServiceBus.EnclosedMessageTypes"] == "Shop.PlaceOrder"
    assert headers["NServiceBus.ContentType"] == "application/json"
    assert headers["NServiceBus.ReplyToAddress"] == '"public"."Billing"'
    assert headers["NServiceBus.TimeToBeReceived"] == "01:30:00"
    assert done.stdout == f'Sent {headers["NServiceBus.MessageId"]} to "public"."Sales".\n'


def test_a_body_comes_from_the_argument_the_input_or_a_file(sales: CommandLine) -> None:
    (sales.folder / "body").write_bytes(b"\x00\xff")

    send(sales, "1")
    send(sales, "-", input="2")
    send(sales, input="3")
    send(sales, "--file", "body", "--content-type", "application/octet-stream")

    assert [message["body"] for message in peeked(sales, "Sales")] == ["1", "2", "3", "00ff"]


def test_lines_are_sent_as_messages_of_their_own(sales: CommandLine) -> None:
    done = sales("queue", "send", "Sales", "--lines", "--type", "T", input='{"id": 1}\n\n{"id": "ż"}')

    assert done.stdout == 'Sent 2 messages to "public"."Sales".\n'
    assert [message["body"] for message in peeked(sales, "Sales")] == ['{"id": 1}', '{"id": "ż"}']


def test_what_is_no_json_or_has_no_name_is_not_sent(sales: CommandLine, ask: Ask) -> None:
    for body in ('{"a": NaN}', "[-Infinity]", "{"):
        done = sales("queue", "send", "Sales", body, "--type", "T")
        assert (done.returncode, "is not JSON" in done.stderr) == (2, True)
    done = sales("queue", "send", "Sales", "{}", "--type", " ")
    assert (done.returncode, "it is empty: name the message" in done.stderr) == (2, True)
    assert ask('select count(*) from "Sales"') == [(0,)]


def test_a_line_that_is_not_json_stops_all_of_them_and_is_named(sales: CommandLine, ask: Ask) -> None:
    done = sales("queue", "send", "Sales", "--lines", "--type", "T", input="1\n2\n{\n")

    assert done.returncode == 2
    assert "Line 3 is not JSON" in done.stderr
    assert ask('select count(*) from "Sales"') == [(0,)]


def test_no_line_at_all_is_exit_code_1(sales: CommandLine) -> None:
    assert sales("queue", "send", "Sales", "--lines", "--type", "T", input="\n").returncode == 1


def test_sending_to_a_queue_that_is_missing_says_how_to_create_it(rowbus: CommandLine) -> None:
    done = rowbus("queue", "send", "Nowhere", "{}", "--type", "T")

    assert done.returncode == 1
    assert "rowbus queue create" in done.stderr


# -------------------------------------------------------------------------------------------------------------- list


def test_list_shows_every_queue_with_its_depth_and_age_and_nothing_else(sales: CommandLine, ask: Ask) -> None:
    ask("create table orders (id uuid, headers text, body bytea)")
    sales("queue", "create", "Billing")
    send(sales, "1")
    send(sales, "2")

    table = sales("queue", "list")
    listed = {queue["table"]: queue for queue in json.loads(sales("queue", "list", "--json").stdout)}

    assert table.returncode == 0
    assert [line.split()[0] for line in table.stdout.splitlines()[1:]] == [
        '"public"."Billing"',
        '"public"."Sales"',
    ]
    assert set(listed) == {"Billing", "Sales"}
    assert listed["Sales"]["depth"] == 2
    assert listed["Sales"]["depth_is_exact"]
    assert listed["Sales"]["sequence_position"] == 2
    assert 0 <= listed["Sales"]["oldest_age"] < 60
    assert listed["Billing"]["depth"] == 0
    assert listed["Billing"]["oldest_age"] is None


def test_list_is_limited_to_a_schema_and_says_when_there_is_no_queue(sales: CommandLine) -> None:
    done = sales("queue", "list", "--schema", "shop", "--json")

    assert done.returncode == 1
    assert json.loads(done.stdout) == []
    assert "no queue in the schema shop" in done.stderr


def test_list_counts_messages_in_hand_beside_those_that_wait(sales: CommandLine, database: str) -> None:
    send(sales, "1")
    send(sales, "2")

    with psycopg.connect(database) as receiver:
        receiver.execute('delete from "Sales" where seq = 1')
        listed = json.loads(sales("queue", "list", "--json").stdout)

    assert [(queue["depth"], queue["in_hand"]) for queue in listed] == [(2, 1)]


def test_list_warns_of_a_sequence_that_nears_its_end(sales: CommandLine, ask: Ask) -> None:
    ask("select setval('\"Sales_seq_seq\"', (2147483647 * 0.76)::bigint)")

    done = sales("queue", "list")

    assert done.returncode == 0
    assert "76%" in done.stdout
    assert "restart" in done.stderr


# -------------------------------------------------------------------------------------------------------------- peek


def test_peek_takes_nothing_and_ends_with_1_when_there_is_nothing(sales: CommandLine, ask: Ask) -> None:
    empty = sales("queue", "peek", "Sales")
    send(sales, '{"id": 7}')

    full = sales("queue", "peek", "Sales")

    assert empty.returncode == 1
    assert '"public"."Sales" is empty' in empty.stderr
    assert full.returncode == 0
    assert "Shop.PlaceOrder" in full.stdout
    assert '{"id": 7}' in full.stdout
    assert ask('select count(*) from "Sales"') == [(1,)]


def test_peek_shows_the_oldest_first_up_to_the_limit(sales: CommandLine) -> None:
    sales("queue", "send", "Sales", "--lines", "--type", "T", input="\n".join(map(str, range(12))))

    assert len(peeked(sales, "Sales")) == 10
    assert [message["body"] for message in peeked(sales, "Sales", "--limit", "2")] == ["0", "1"]


def test_peek_reads_bodies_by_their_byte_order_mark_or_shows_their_bytes(
    sales: CommandLine, ask: Ask
) -> None:
    bodies = [b"\xef\xbb\xbf{}", "ż".encode("utf-16"), b"\xff\xfe\xfd", None]
    for body in bodies:
        ask("insert into \"Sales\" (id, headers, body) values (gen_random_uuid(), '{}', %s)", [body])

    found = [(message["body"], message["body_encoding"]) for message in peeked(sales, "Sales")]
    assert found == [("{}", "utf-8"), ("ż", "utf-16-le"), ("fffefd", "hex"), (None, "none")]


def test_peek_shows_headers_that_nobody_can_read_as_they_are(sales: CommandLine, ask: Ask) -> None:
    ask("insert into \"Sales\" (id, headers, body) values (gen_random_uuid(), '[nonsense', '')")

    message = peeked(sales, "Sales")[0]

    assert (message["headers"], message["raw_headers"]) == (None, "[nonsense")
    assert "[nonsense" in sales("queue", "peek", "Sales").stdout
    assert "[nonsense" in sales("queue", "peek", "Sales", "--headers").stdout


def test_peek_with_headers_shows_a_message_in_full(sales: CommandLine) -> None:
    send(sales, json.dumps({"text": "x" * 500}), "--header", "Shop=Kraków")

    shown = sales("queue", "peek", "Sales", "--headers").stdout

    assert "Shop: Kraków" in shown
    assert "x" * 500 in shown


def test_a_message_cannot_control_the_terminal(sales: CommandLine) -> None:
    send(sales, "\x1b[2J\x9b1m", "--content-type", "text/plain", "--header", "Evil=\x1b]0;x\x07")

    for arguments in ([], ["--headers"]):
        shown = sales("queue", "peek", "Sales", *arguments).stdout
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert r"\x1b[2J" in shown


# ------------------------------------------------------------------------------------------------------------- purge


def test_purge_says_how_many_messages_it_deleted(sales: CommandLine) -> None:
    send(sales, "1")
    send(sales, "2")

    done = sales("queue", "purge", "Sales", "--yes")

    assert done.stdout == 'Deleted 2 messages of "public"."Sales".\n'
    assert sales("queue", "peek", "Sales").returncode == 1


def test_purge_deletes_nothing_where_nobody_can_be_asked(sales: CommandLine, ask: Ask) -> None:
    send(sales, "1")

    done = sales("queue", "purge", "Sales")

    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert ask('select count(*) from "Sales"') == [(1,)]


@pytest.mark.parametrize("answer, code, left", [("n", 1, 1), ("y", 0, 0)])
def test_purge_asks_at_a_terminal(sales: CommandLine, ask: Ask, answer: str, code: int, left: int) -> None:
    send(sales, "1")
    ours, theirs = pty.openpty()

    process = subprocess.Popen(
        [*ROWBUS, "queue", "purge", "Sales"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=sales.folder,
        env=sales.environment(),
    )
    os.close(theirs)
    question = b""
    while b"?" not in question:
        question += os.read(ours, 1000)
    os.write(ours, answer.encode() + b"\n")

    assert process.wait() == code
    os.close(ours)
    assert b'Delete the 1 messages of "public"."Sales"' in question
    assert ask('select count(*) from "Sales"') == [(left,)]


def test_purging_the_expired_leaves_the_others_and_those_in_hand(
    sales: CommandLine, ask: Ask, database: str
) -> None:
    send(sales, "1", "--ttbr", "1ms")
    send(sales, "2", "--ttbr", "1ms")
    send(sales, "3", "--ttbr", "1h")
    send(sales, "4")

    with psycopg.connect(database) as receiver:
        receiver.execute('select from "Sales" where seq = 1 for update')
        done = sales("queue", "purge", "Sales", "--expired", "--yes")

    assert done.stdout == 'Deleted 1 expired message of "public"."Sales".\n'
    assert ask('select seq from "Sales" order by seq') == [(1,), (3,), (4,)]


def test_a_reader_that_goes_away_is_no_reason_for_a_traceback(sales: CommandLine) -> None:
    sales("queue", "send", "Sales", "--lines", "--type", "T", input="\n".join(map(str, range(5000))))
    reader = subprocess.run(  # noqa: S602 - a pipe is what is tested
        f"{' '.join(ROWBUS)} queue peek Sales --limit 5000 --json | head -n 1",
        shell=True,
        capture_output=True,
        check=False,
        cwd=sales.folder,
        env=sales.environment(),
    )

    assert reader.stdout == b"[\n"
    assert b"Traceback" not in reader.stderr


def test_names_with_quotes_and_capitals_are_taken_as_they_are(rowbus: CommandLine, ask: Ask) -> None:
    name = QueueAddress("public", 'a "b" %s ż')

    assert rowbus("queue", "create", str(name)).returncode == 0
    assert rowbus("queue", "send", str(name), "1", "--type", "T").returncode == 0

    assert ask('select count(*) from "a ""b"" %s ż"') == [(1,)]


def test_what_commands_do_is_in_the_trail_with_who_did_it(rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales", "error")
    for queue in ("Sales", "error"):
        rowbus("queue", "send", queue, "{}", "--type", "Shop.Place", "--header", "NServiceBus.FailedQ=Sales")

    rowbus("errors", "retry", "--failed-in", "Sales")
    rowbus("errors", "discard", "--all", "--yes")
    rowbus("queue", "purge", "Sales", "--yes")
    rowbus("queue", "purge", "Nowhere", "--yes")

    noted = ask(
        'select action, queue, subject, done, stayed, state from "Rowbus.Operations" order by began, noted'
    )
    assert noted == [
        ("retry", '"public"."error"', 'failed in "public"."Sales"', 1, 0, "done"),
        ("discard", '"public"."error"', "all", 0, 0, "done"),
        ("purge", '"public"."Sales"', "all", 2, 0, "done"),
        ("purge", '"public"."Nowhere"', "all", 0, 0, "failed"),
    ]
    ((person, role),) = ask('select distinct person, current_user from "Rowbus.Operations"')
    assert person == f"{pwd.getpwuid(os.getuid()).pw_name}, role {role}"


def test_a_waiting_message_is_cancelled_by_its_id_and_brought_back(rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales")
    for number in ("1", "2", "3", "4"):
        send(rowbus, number)
    waiting = json.loads(rowbus("queue", "peek", "Sales", "--json").stdout)
    second, earlier = (waiting[place]["headers"]["NServiceBus.MessageId"] for place in (1, 3))
    bodies = "select convert_from(body, 'utf8') from \"Sales\" order by seq"
    rowbus("errors", "discard", earlier, "--error-queue", "Sales", "--yes")

    cancelled = rowbus("errors", "discard", second, "--error-queue", "Sales", "--yes")
    left = ask(bodies)
    again = rowbus("errors", "discard", second, "--error-queue", "Sales", "--yes")
    back = rowbus("errors", "undiscard", "--error-queue", "Sales")

    assert cancelled.stdout == 'Discarded 1 message of "public"."Sales".\n'
    assert left == [("1",), ("3",)]
    assert (again.returncode, again.stderr) == (1, 'rowbus: "public"."Sales" has no such message\n')
    assert back.stdout == 'Brought 1 message back to "public"."Sales".\n'
    assert ask(bodies) == [("1",), ("3",), ("2",)]
    noted = ask('select action, queue, subject, done from "Rowbus.Operations" order by began')
    assert noted[1] == ("discard", '"public"."Sales"', f"ids {second}", 1)


def test_a_command_tells_who_works_on_the_same_queue_and_not_who_did_or_was_killed(
    rowbus: CommandLine, ask: Ask
) -> None:
    rowbus("queue", "create", "Sales")
    quiet = rowbus("queue", "purge", "Sales", "--yes").stderr
    begun = """
        insert into "Rowbus.Operations" (id, person, action, queue, subject, done, noted)
        values (%s, %s, 'retry', %s, 'all', 2, now() - %s::interval)
    """
    for person, queue, age in (
        ("ann", '"public"."Sales"', "5 minutes"),
        ("killed", '"public"."Sales"', "2 hours"),
        ("elsewhere", '"public"."Billing"', "0"),
    ):
        ask(begun, (person, person, queue, age))

    told = rowbus("queue", "purge", "Sales", "--yes").stderr

    assert quiet == ""
    assert re.fullmatch(r"rowbus: ann began this at [0-9:]{8} UTC, and it runs: retry, 2 done\.\n", told)


def test_what_is_dropped_is_listed_first_and_nothing_else_goes(rowbus: CommandLine, ask: Ask) -> None:
    assert rowbus("queue", "create", "Sales", '"public"."Sales.Europe"', "Old").returncode == 0
    rowbus("subscriptions", "create")
    for endpoint in ("Sales", "Sales.Europe"):
        rowbus("delayed", "create", endpoint)
        rowbus("subscriptions", "add", endpoint, "Shop.OrderPlaced")
    ask("""create table "Sales.Notes" ()""")
    lock = """pg_advisory_lock_shared(hashtextextended('rowbus receiver "public"."Sales"', 0))"""

    with psycopg.connect(rowbus.database) as receiver:
        receiver.execute(f"select {lock}".encode())
        busy = rowbus("endpoint", "drop", "Sales", "--yes")
    asked = rowbus("endpoint", "drop", "Sales")
    done = rowbus("endpoint", "drop", "Sales", "--yes")
    rowbus("queue", "drop", "Old", "--yes")
    none = rowbus("queue", "drop", '"public"."Sales.Europe.Delayed"', "--yes")

    assert (busy.returncode, asked.returncode, done.returncode, none.returncode) == (2, 2, 0, 1)
    assert "1 from" in busy.stderr
    own = ['"public"."Sales"', '"public"."Sales.Delayed"', '"public"."Sales.Notes"']
    said = "Dropped 3 tables of Sales, and ended 1 of its subscriptions."
    assert done.stdout.splitlines() == [*own, said]
    left = ask("select tablename from pg_tables where schemaname = 'public' order by 1")
    assert [name for (name,) in left] == [
        "Rowbus.Operations",
        "Sales.Europe",
        "Sales.Europe.Delayed",
        "SubscriptionRouting",
    ]


# -------------------------------------------------------------------------------------------------------- completion


def test_names_of_queues_and_logs_complete_and_a_database_that_is_away_completes_none(
    sales: CommandLine,
) -> None:
    assert sales("log", "install").returncode == 0
    assert sales("log", "create", "orders").returncode == 0

    def after(words: str, **environment: str) -> list[str]:
        count = str(len(words.split()))
        done = sales(_ROWBUS_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count, **environment)
        return done.stdout.split()

    assert after("rowbus queue purge ") == after("rowbus endpoint drop ") == ["Sales"]
    assert after("rowbus log consumers ") == ["orders"]
    assert after("rowbus queue purge ", ROWBUS_DATABASE="host=127.0.0.1 port=1") == []
