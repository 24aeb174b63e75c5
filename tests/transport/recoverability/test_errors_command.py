"""`rowbus errors`: failed messages are counted, shown, put back and discarded as an operator would."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from tests.fixtures.command_line import as_role
from tests.fixtures.forked import ROWBUS

if TYPE_CHECKING:
    from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

ERROR = QueueAddress("public", "error")
SALES = QueueAddress("public", "Sales")
BILLING = QueueAddress("public", "Billing")


class ErrorQueue:
    """An error queue with the queues whose messages it holds, and the command line to look at it."""

    def __init__(self, rowbus: CommandLine, ask: Ask) -> None:
        self.rowbus = rowbus
        self._ask = ask
        assert rowbus("queue", "create", "Sales", "Billing", "error").returncode == 0

    def add(
        self,
        message_id: str,
        *,
        queue: QueueAddress | None = SALES,
        exception: str = "shop.OutOfStockError",
        type: str = "Shop.PlaceOrder",
        hour: int = 12,
        body: bytes | None = b"{}",
        **more: str,
    ) -> None:
        headers = {
            Header.MESSAGE_ID: message_id,
            Header.ENCLOSED_MESSAGE_TYPES: type,
            Header.EXCEPTION_TYPE: exception,
            Header.EXCEPTION_MESSAGE: f"{message_id} failed",
            Header.EXCEPTION_STACK_TRACE: "Traceback (most recent call last):\n  first\n  second\n",
            Header.TIME_OF_FAILURE: f"2026-05-01 {hour:02d}:00:00:000000 Z",
            Header.RETRIES_TIMESTAMP: f"2026-05-01 {hour:02d}:00:00:000000 Z",
            Header.PROCESSING_ENDPOINT: "Sales",
            **({Header.FAILED_QUEUE: queue.canonical} if queue else {}),
            **more,
        }
        self.add_row(json.dumps(headers), body)

    def add_row(self, headers_text: str, body: bytes | None = b"{}") -> str:
        rows = self._ask(
            "insert into error (id, headers, body) values (gen_random_uuid(), %s, %s) returning id::text",
            (headers_text, body),
        )
        return str(rows[0][0])

    def rows(self, queue: QueueAddress) -> list[tuple[dict[str, str], bytes]]:
        query = sql.SQL("select headers, body from {} order by seq").format(
            sql.Identifier(queue.schema, queue.table)
        )
        return [(json.loads(headers), body) for headers, body in self._ask(query.as_string())]

    def ids(self, queue: QueueAddress) -> list[str]:
        return [headers[Header.MESSAGE_ID] for headers, _ in self.rows(queue)]

    def json(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever the command prints
        done = self.rowbus("errors", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def errors(rowbus: CommandLine, ask: Ask) -> ErrorQueue:
    return ErrorQueue(rowbus, ask)


# -------------------------------------------------------------------------------------------------------------- list


def test_failed_messages_are_counted_by_exception_type_and_queue(errors: ErrorQueue) -> None:
    errors.add("1")
    errors.add("2", exception="KeyError", queue=BILLING)
    errors.add("3", hour=13)

    done = errors.rowbus("errors", "list")

    title, *rows = done.stdout.splitlines()
    assert title.split() == ["count", "exception", "type", "failed", "in", "last", "failed", "reason"]
    assert [row.split() for row in rows] == [
        [
            "2",
            "shop.OutOfStockError",
            "Shop.PlaceOrder",
            '"public"."Sales"',
            "2026-05-01",
            "13:00:00",
            "3",
            "failed",
        ],
        ["1", "KeyError", "Shop.PlaceOrder", '"public"."Billing"', "2026-05-01", "12:00:00", "2", "failed"],
    ]


def test_counts_are_for_programs_too(errors: ErrorQueue) -> None:
    errors.add("1")
    errors.add("2", hour=13)

    assert errors.json("list") == [
        {
            "count": 2,
            "exception": "shop.OutOfStockError",
            "type": "Shop.PlaceOrder",
            "failed_queue": '"public"."Sales"',
            "readable": True,
            "first_failed_at": "2026-05-01T12:00:00+00:00",
            "last_failed_at": "2026-05-01T13:00:00+00:00",
            "last_message_id": "2",
            "last_reason": "2 failed",
        }
    ]


def test_each_message_can_be_listed_narrowed_down_by_every_option(errors: ErrorQueue) -> None:
    errors.add("1")
    errors.add("2", exception="KeyError")
    errors.add("3", queue=BILLING)
    errors.add("4", type="Shop.CancelOrder")
    errors.add("5", hour=14)

    def listed(*options: str) -> list[str]:
        return [message["message_id"] for message in errors.json("list", "--each", *options)]

    assert listed() == ["1", "2", "3", "4", "5"]
    assert listed("-n", "2") == ["1", "2"]
    assert listed("--exception", "KeyError", "--exception", "ValueError") == ["2"]
    assert listed("--failed-in", "Billing") == ["3"]
    assert listed("--type", "CancelOrder") == ["4"]
    assert listed("--since", "2026-05-01T13:00") == ["5"]
    assert listed("--until", "2026-05-01T14:30+02:00") == ["1", "2", "3", "4"]


def test_an_empty_error_queue_is_exit_code_1_and_a_missing_one_says_so(errors: ErrorQueue) -> None:
    empty = errors.rowbus("errors", "list")
    missing = errors.rowbus("errors", "list", "--error-queue", "nowhere")

    assert (empty.returncode, empty.stderr) == (1, 'rowbus: "public"."error" is empty\n')
    assert missing.returncode == 1
    assert "nowhere" in missing.stderr


def test_more_messages_than_fit_a_page_are_all_counted(errors: ErrorQueue, ask: Ask) -> None:
    ask(
        "insert into error (id, headers, body) select gen_random_uuid(), %s, '' from generate_series(1, 1234)",
        (json.dumps({Header.EXCEPTION_TYPE: "KeyError"}),),
    )

    assert [one["count"] for one in errors.json("list")] == [1234]


# -------------------------------------------------------------------------------------------------------------- show


def test_show_has_the_headers_the_stack_trace_as_lines_and_the_body(errors: ErrorQueue) -> None:
    errors.add("1", body=b'{"order": 1}', Shop="Kraków")

    shown = errors.rowbus("errors", "show", "1").stdout

    assert "Shop: Kraków\n" in shown
    assert "\nstack trace:\n  Traceback (most recent call last):\n    first\n    second\n" in shown
    assert shown.endswith('\nbody: {"order": 1}\n')
    (as_json,) = errors.json("show", "1")
    assert as_json["headers"]["Shop"] == "Kraków"
    assert as_json["body"] == '{"order": 1}'
    assert as_json["exception"] == "shop.OutOfStockError"


def test_show_has_pythons_traceback_in_place_of_the_trace_that_servicecontrol_reads(
    errors: ErrorQueue,
) -> None:
    traces = {
        Header.EXCEPTION_STACK_TRACE: "KeyError: 'x'\n   at shop.price_of() in /srv/shop.py:line 3",
        Header.EXCEPTION_TRACEBACK: "Traceback (most recent call last):\n  source\nKeyError: 'x'\n",
    }
    errors.add_row(json.dumps({Header.MESSAGE_ID: "1", **traces}), b"{}")

    shown = errors.rowbus("errors", "show", "1").stdout

    assert "\nstack trace:\n  Traceback (most recent call last):\n    source\n  KeyError: 'x'\nbody" in shown
    assert "price_of" not in shown


def test_a_row_that_nobody_can_read_is_shown_by_its_own_id(errors: ErrorQueue) -> None:
    row_id = errors.add_row("null", None)

    shown = errors.rowbus("errors", "show", row_id).stdout

    assert (
        shown == f"--- message {row_id}, row {row_id}\n(headers cannot be read) null\nbody (none): (null)\n"
    )


def test_show_of_an_unknown_id_is_exit_code_1(errors: ErrorQueue) -> None:
    done = errors.rowbus("errors", "show", "1")

    assert (done.returncode, done.stdout) == (1, "")
    assert "has no such message" in done.stderr


# --------------------------------------------------------------------------------------------------- acknowledgements

UNIQUE = "9a0364b9-99bb-30e2-b7b6-5e0f3d1c2b4a"
ACKNOWLEDGEMENT = {
    Header.MESSAGE_ID: "acknowledgement",
    Header.CONTROL_MESSAGE: "True",
    Header.RETRY_UNIQUE_MESSAGE_ID: UNIQUE,
    Header.RETRY_SUCCESSFUL: "2026-05-01 12:00:00:000000 Z",
}
LEFT_OUT = "rowbus: left out: 2 of ServiceControl's acknowledgements, which it takes from this queue\n"


def acknowledge(errors: ErrorQueue) -> None:
    for control in ("True", "true"):
        errors.add_row(json.dumps(ACKNOWLEDGEMENT | {Header.CONTROL_MESSAGE: control}), b"")


def test_acknowledgements_of_servicecontrols_retries_are_counted_in_a_line(errors: ErrorQueue) -> None:
    acknowledge(errors)
    errors.add("1")

    grouped, each = errors.rowbus("errors", "list"), errors.rowbus("errors", "list", "--each")

    assert len(grouped.stdout.splitlines()) == len(each.stdout.splitlines()) == 2  # a title and a row
    assert grouped.stderr == each.stderr == LEFT_OUT
    assert [one["count"] for one in errors.json("list")] == [1]


def test_acknowledgements_are_neither_retried_nor_discarded(errors: ErrorQueue, ask: Ask) -> None:
    acknowledge(errors)
    errors.add("1")
    errors.add("2", hour=13)

    retried = errors.rowbus("errors", "retry", "--since", "2026-05-01T13:00")
    discarded = errors.rowbus("errors", "discard", "--all", "--yes")
    again = errors.rowbus("errors", "discard", "--all", "--yes")
    elsewhere = errors.rowbus("errors", "retry", "--all", "--to", "Billing")

    assert (retried.returncode, retried.stderr) == (discarded.returncode, discarded.stderr) == (0, LEFT_OUT)
    assert discarded.stdout == 'Discarded 1 message of "public"."error".\n'
    for done in (again, elsewhere, errors.rowbus("errors", "list")):
        assert (done.returncode, done.stderr) == (
            1,
            LEFT_OUT + 'rowbus: "public"."error" has no failed message\n',
        )
    assert ask("select count(*) from error") == [(2,)]


def test_a_control_message_that_acknowledges_nothing_is_a_failure_like_others(errors: ErrorQueue) -> None:
    errors.add_row(json.dumps({Header.CONTROL_MESSAGE: "True", Header.FAILED_QUEUE: SALES.canonical}), b"")

    assert [one["count"] for one in errors.json("list")] == [1]


# ------------------------------------------------------------------------------------------------------------- retry


def test_a_retried_message_is_back_where_it_failed_with_no_more_of_its_failure_than_its_attempts(
    errors: ErrorQueue,
) -> None:
    errors.add("1", body=b'{"order": 1}', Shop="Kraków")
    errors.add("2")

    done = errors.rowbus("errors", "retry", "1")

    assert done.stdout == 'Sent 1 message back to "public"."Sales".\n'
    assert errors.ids(ERROR) == ["2"]
    ((headers, body),) = errors.rows(SALES)
    assert body == b'{"order": 1}'
    (attempt,) = json.loads(headers.pop(Header.ATTEMPTS) or "")
    assert attempt["then"].startswith("sent back by ")
    assert headers == {
        Header.MESSAGE_ID: "1",
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder",
        Header.PROCESSING_ENDPOINT: "Sales",
        "Shop": "Kraków",
    }


@pytest.mark.parametrize(
    "options, gone",
    [
        (["1", "3"], ["1", "3"]),
        (["--exception", "KeyError"], ["2"]),
        (["--since", "2026-05-01T13:00"], ["4"]),
        (["--until", "2026-05-01T13:00", "--failed-in", "Sales"], ["1", "2"]),
        (["--type", "Shop.CancelOrder"], ["4"]),
        (["--all"], ["1", "2", "3", "4"]),
    ],
    ids=" ".join,
)
def test_messages_are_retried_by_id_by_exception_by_time_by_type_or_all(
    errors: ErrorQueue, options: list[str], gone: list[str]
) -> None:
    errors.add("1")
    errors.add("2", exception="KeyError")
    errors.add("3", queue=BILLING)
    errors.add("4", hour=14, queue=BILLING, type="Shop.CancelOrder")

    retried = errors.json("retry", *options)["retried"]

    assert sorted(errors.ids(SALES) + errors.ids(BILLING)) == gone
    assert sorted(errors.ids(SALES) + errors.ids(BILLING) + errors.ids(ERROR)) == ["1", "2", "3", "4"]
    assert sum(retried.values()) == len(gone)


def test_the_order_of_the_messages_is_kept(errors: ErrorQueue) -> None:
    for number in range(20):
        errors.add(str(number))

    errors.rowbus("errors", "retry", "--all")

    assert errors.ids(SALES) == [str(number) for number in range(20)]


def test_messages_that_cannot_go_back_stay_with_the_reason_and_the_others_go(errors: ErrorQueue) -> None:
    errors.add("nowhere", queue=None)
    errors.add("gone", queue=QueueAddress("public", "Closed"))
    errors.add("in a circle", queue=ERROR)
    errors.add_row("null")
    errors.add("good")

    done = errors.rowbus("errors", "retry", "--all")

    assert done.returncode == 0
    assert errors.ids(SALES) == ["good"]
    assert len(errors.rows(ERROR)) == 4
    assert sorted(done.stderr.splitlines()) == [
        'rowbus: 1 message stayed in "public"."error": failed in "public"."Closed", which does not exist',
        'rowbus: 1 message stayed in "public"."error": failed in the error queue itself (--to gives another queue)',
        'rowbus: 1 message stayed in "public"."error": headers that cannot be read',
        'rowbus: 1 message stayed in "public"."error": no queue named where they failed (--to gives one)',
    ]


def test_a_message_can_be_sent_to_another_queue_than_its_own(errors: ErrorQueue) -> None:
    errors.add("nowhere", queue=None)
    errors.add("1")

    assert errors.rowbus("errors", "retry", "--all", "--to", "Billing").returncode == 0

    assert errors.ids(BILLING) == ["nowhere", "1"]


def test_a_message_in_somebodys_hands_is_passed_over_and_no_one_waited_for(errors: ErrorQueue) -> None:
    errors.add("1")
    errors.add("2")

    with psycopg.connect(errors.rowbus.database) as connection:
        connection.execute("select from error order by seq limit 1 for update")
        done = errors.rowbus("errors", "retry", "--all")

    assert errors.ids(SALES) == ["2"]
    assert errors.ids(ERROR) == ["1"]
    assert '1 message stayed in "public"."error": in somebody\'s hands: try again;' in done.stderr


def test_a_message_that_its_queue_refuses_stays_and_the_others_go(errors: ErrorQueue, ask: Ask) -> None:
    errors.add("1")
    errors.add("2", queue=BILLING)
    ask('alter table "Billing" add check (false)')

    done = errors.rowbus("errors", "retry", "--all")

    assert done.returncode == 0, done.stderr
    assert '1 message stayed in "public"."error": "public"."Billing" refuses it' in done.stderr
    assert errors.ids(SALES) == ["1"]
    assert errors.ids(ERROR) == ["2"]


def test_messages_go_to_another_schema_only_when_that_is_said(errors: ErrorQueue, ask: Ask) -> None:
    ask("create schema ledger")
    assert errors.rowbus("queue", "create", '"ledger"."Payroll"').returncode == 0
    payroll = QueueAddress("ledger", "Payroll")
    errors.add("1", queue=payroll)

    refused = errors.rowbus("errors", "retry", "--all")
    both = errors.rowbus("errors", "retry", "--all", "--to-any-queue", "--allow", "Sales")
    allowed = errors.rowbus("errors", "retry", "--all", "--allow", '"ledger"."*"')

    assert refused.returncode == 1
    assert "--allow" in refused.stderr
    assert both.returncode == 2
    assert allowed.returncode == 0, allowed.stderr
    assert errors.ids(payroll) == ["1"]


def test_a_body_that_is_null_comes_back_empty(errors: ErrorQueue) -> None:
    errors.add("1", body=None)

    errors.rowbus("errors", "retry", "1")

    assert [body for _, body in errors.rows(SALES)] == [b""]


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_which_messages_are_meant_must_be_said(errors: ErrorQueue, verb: str) -> None:
    errors.add("1")

    nothing = errors.rowbus("errors", verb)
    both = errors.rowbus("errors", verb, "1", "--all")

    assert (nothing.returncode, both.returncode) == (2, 2)
    assert "--all" in nothing.stderr
    assert errors.ids(ERROR) == ["1"]


def test_retrying_what_is_not_there_is_exit_code_1(errors: ErrorQueue) -> None:
    done = errors.rowbus("errors", "retry", "1")

    assert (done.returncode, done.stdout) == (1, "")
    assert "has no such message" in done.stderr


def test_retrying_to_the_error_queue_is_refused(errors: ErrorQueue) -> None:
    assert errors.rowbus("errors", "retry", "--all", "--to", "error").returncode == 2


# ----------------------------------------------------------------------------------------------------------- discard


def test_discard_deletes_those_meant_and_says_how_many(errors: ErrorQueue) -> None:
    errors.add("1")
    errors.add("2", exception="KeyError")
    errors.add_row("null")

    done = errors.rowbus("errors", "discard", "--exception", "KeyError", "--yes")

    assert done.stdout == 'Discarded 1 message of "public"."error".\n'
    assert errors.json("discard", "--all", "--yes") == {"discarded": {'"public"."error"': 2}, "stayed": {}}
    assert errors.rows(ERROR) == []

    for count in (2, 1):  # the latest first
        assert errors.json("undiscard") == {"returned": {'"public"."error"': count}, "stayed": {}}
    assert len(errors.rows(ERROR)) == 3
    assert errors.rowbus("errors", "undiscard").returncode == 1


def test_discard_says_what_servicecontrol_had_retried_and_tells_it_where_it_is_asked_to(
    errors: ErrorQueue,
) -> None:
    known: dict[str, Any] = {Header.RETRY_UNIQUE_MESSAGE_ID: UNIQUE}
    for each in ("1", "2"):
        errors.add(each, **known)
    malformed: dict[str, Any] = {Header.RETRY_UNIQUE_MESSAGE_ID: "no GUID"}
    errors.add("3", **malformed)

    silent = errors.rowbus("errors", "discard", "1", "--yes")
    told = errors.rowbus("errors", "discard", "--all", "--resolve", "--yes")

    assert silent.stderr == (
        'rowbus: 1 message had been retried by ServiceControl, which goes on showing them as "retry issued" without '
        "--resolve\n"
    )
    assert told.stdout == 'Discarded 2 messages of "public"."error".\n'
    assert "1 message had been retried by ServiceControl, which is told that they are over" in told.stderr
    ((headers, body),) = errors.rows(ERROR)
    assert headers[Header.RETRY_UNIQUE_MESSAGE_ID] == UNIQUE
    assert headers.keys() == ACKNOWLEDGEMENT.keys() | {Header.MESSAGE_ID, Header.VERSION, Header.TIME_SENT}
    assert body == b""


def test_where_nobody_can_answer_discard_wants_a_yes(errors: ErrorQueue) -> None:
    errors.add("1")

    done = errors.rowbus("errors", "discard", "1")

    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert errors.ids(ERROR) == ["1"]


@pytest.mark.parametrize("answer, left", [("y\n", []), ("n\n", ["1"])])
def test_discard_asks_with_the_number_of_messages(errors: ErrorQueue, answer: str, left: list[str]) -> None:
    errors.add("1")

    said = discard_all(errors, answer, errors.rowbus.database)

    assert 'Delete 1 message of "public"."error" in ' in said
    assert "for good" not in said
    assert errors.ids(ERROR) == left


@pytest.mark.parametrize("missing", ["the table", "update"])
def test_a_role_that_may_keep_nothing_hears_of_the_grant_before_it_discards_for_good(
    errors: ErrorQueue, ask: Ask, role: str, missing: str
) -> None:
    if missing == "update":
        errors.rowbus("errors", "discard", "--all", "--yes")  # there is nothing, but a table to keep it in
        ask(f'grant select, insert, delete on "Rowbus.Discarded" to {role}')
    ask(f"grant select, insert, update, delete on error to {role}")
    errors.add("1")

    said = discard_all(errors, "n\n", as_role(errors.rowbus.database, role))

    reason, _, question = said.partition("Delete 1 message")
    assert f"gone for good: the role {role} needs SELECT, INSERT, UPDATE and DELETE on" in reason
    assert f"`rowbus schema grants --web --role {role}`" in reason
    assert " for good?" in question
    assert errors.ids(ERROR) == ["1"]


def test_yes_alone_discards_nothing_for_good(errors: ErrorQueue, ask: Ask, role: str) -> None:
    ask(f"grant select, insert, update, delete on error to {role}")
    errors.add("1")
    poor = as_role(errors.rowbus.database, role)

    refused = errors.rowbus("errors", "discard", "--all", "--yes", ROWBUS_DATABASE=poor)
    left = errors.ids(ERROR)
    done = errors.rowbus("errors", "discard", "--all", "--yes", "--for-good", ROWBUS_DATABASE=poor)

    assert (refused.returncode, left) == (2, ["1"])
    assert "--for-good" in refused.stderr
    assert "schema grants --web" in refused.stderr
    assert (done.returncode, errors.ids(ERROR)) == (0, [])


def discard_all(errors: ErrorQueue, answer: str, dsn: str) -> str:
    """Discard on a terminal, give an answer, and return what was said there."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    try:
        done = subprocess.run(
            [*ROWBUS, "errors", "discard", "--all"],
            stdin=theirs,
            capture_output=True,
            check=False,
            env=errors.rowbus.environment(ROWBUS_DATABASE=dsn),
            timeout=60,
            text=True,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return done.stderr
