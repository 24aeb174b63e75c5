"""Failed messages on the page: found, read, sent back, edited and discarded; by operators alone."""

from __future__ import annotations

import asyncio
import html
import json
import re
import threading
from typing import TYPE_CHECKING

import pytest
from markupsafe import Markup

from rowbus.messages.headers import Header
from rowbus.transport.recoverability.error_queue import ErrorQueue as Errors
from rowbus.transport.recoverability.failed_message import PastAttempt
from rowbus.web.failed import bodies
from rowbus.web.failed.conversation import Step, drawn
from rowbus.web.failed.message import Calls, compared, folded
from rowbus.web.settings import WebSettings
from rowbus.web.showing import LONGEST_LINES, moment
from tests.fixtures.every import every
from tests.web.conftest import browser, confirm, key_of, token_of
from tests.web.failures import BILLING, ERROR, ErrorQueue, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from datetime import datetime

    import httpx

    from rowbus.transport.recoverability.error_queue import Result
    from tests.fixtures.command_line import CommandLine

ALL: dict[str, str | list[str]] = {"queue": "error"}
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m'\"&"


@pytest.fixture
def errors(database: str, rowbus: CommandLine) -> Iterator[ErrorQueue]:
    assert rowbus("queue", "create", "Sales", "Billing", "error", "audit").returncode == 0
    queue = ErrorQueue(database)
    yield queue
    queue.connection.close()


@pytest.fixture
async def client(database: str, errors: ErrorQueue) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(database, WebSettings(period=0.05)) as client:
        await looked_at(client)
        yield client


async def looked_at(client: httpx.AsyncClient) -> None:
    """Have the page know which queues there are, and what its role may do with them."""
    await client.get("/")
    site = client.site  # type: ignore[attr-defined] # conftest's
    async with asyncio.timeout(30):
        while not any(queue.address.table == "error" for queue in site.sampler.snapshot.queues):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.02)


async def shown(client: httpx.AsyncClient, path: str = "/failed", **query: str) -> str:
    answer = await client.get(path, params=query or None)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_the_overview_says_how_many_groups_there_are(
    errors: ErrorQueue, client: httpx.AsyncClient
) -> None:
    errors.add("1")
    errors.add("2")
    errors.add("3", exception="bank.DeclinedError")
    # The page looks when the server's statistics say so, and an idle session tells them after ten seconds.
    errors.connection.execute("select pg_stat_force_next_flush()")

    async with asyncio.timeout(30):
        while "In 2 groups" not in await shown(client, "/"):  # noqa: ASYNC110 - each visit has what was read before
            await asyncio.sleep(0.02)


# --------------------------------------------------------------------------------------------------------------- list


async def test_messages_are_grouped_by_exception_type_and_queue(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    for number in range(3):
        errors.add(f"tent-{number}", hour=number)
    errors.add("card", exception="System.TimeoutException", queue=BILLING, type="Shop.ChargeCard")
    errors.add_acknowledgement()

    page = text_of(await shown(client))

    assert "4 messages in &#34;public&#34;.&#34;error&#34;" in page
    assert "left out: 1 acknowledgement for ServiceControl" in page
    assert page.index("shop.OutOfStockError") < page.index("System.TimeoutException")
    assert "3 shop.OutOfStockError no tents Shop.PlaceOrder &#34;public&#34;.&#34;Sales&#34;" in page
    by_type = text_of(await shown(client, by="type"))
    assert "3 Shop.PlaceOrder" in by_type
    assert "1 Shop.ChargeCard" in by_type
    by_queue = text_of(await shown(client, by="endpoint"))
    assert "1 &#34;public&#34;.&#34;Billing&#34;" in by_queue


@every(
    "query, found",
    [
        ({"text": "ORD-2"}, ["two"]),
        ({"text": "Größe"}, ["three"]),
        ({"text": 'no "tents"'}, ["one"]),
        ({"text": "ord-2"}, []),
        ({"id": "two"}, ["two"]),
        ({"conversation": "C1"}, ["one", "three"]),
        ({"type": "PlaceOrder"}, ["one", "three"]),
        ({"exception": "System.TimeoutException"}, ["two"]),
        ({"failed_in": "Billing"}, ["two"]),
        ({"failed_in": BILLING}, ["two"]),
        ({"since": "2026-05-01T02:00", "until": "2026-05-01T03:00"}, ["two"]),
        ({"type": "PlaceOrder", "text": "ORD-"}, ["one"]),
    ],
)
async def test_a_search_finds_what_fits_all_of_it(
    client: httpx.AsyncClient, errors: ErrorQueue, query: dict[str, str], found: list[str]
) -> None:
    conversation = {Header.CONVERSATION_ID: "C1"}
    errors.add("one", hour=1, reason='no "tents"', body=b'{"order": "ORD-1"}', more=conversation)
    errors.add(
        "two",
        hour=2,
        reason="late",
        body=b'{"order": "ORD-2"}',
        type="Shop.ChargeCard",
        exception="System.TimeoutException",
        queue=BILLING,
    )
    errors.add("three", hour=3, reason="Gr\u00f6\u00dfe", body=b"\xff\x00", more=conversation)

    page = text_of(await shown(client, **query))

    assert [one for one in ("one", "two", "three") if f" {one} " in page] == found


@pytest.mark.one_version
async def test_a_long_list_has_pages(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    for number in range(60):
        errors.add(f"m-{number:02d}")

    first = await shown(client, type="PlaceOrder")
    following = first.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    second = await shown(client, following)

    assert "m-59" in first
    assert "m-10" in first
    assert "m-09" not in first
    assert "m-09" in second
    assert "m-10" not in second
    assert 'rel="next"' not in second


@pytest.mark.one_version
async def test_what_cannot_be_searched_for_is_said(client: httpx.AsyncClient) -> None:
    for query in ({"since": "yesterday"}, {"text": "\0"}, {"queue": "x" * 99}):
        answer = await client.get("/failed", params=query)
        assert answer.status_code == 400, query


@pytest.mark.one_version
async def test_a_missing_error_queue_is_said(client: httpx.AsyncClient) -> None:
    answer = await client.get("/failed", params={"queue": "mistakes"})

    assert answer.status_code == 404
    assert "There is no error queue &#34;public&#34;.&#34;mistakes&#34;" in answer.text


@pytest.mark.one_version
async def test_what_is_masked_is_neither_shown_nor_found(database: str, errors: ErrorQueue) -> None:
    row_id = errors.add(body=b'{"order": "ORD-1", "card": {"number": "4111"}}')
    async with browser(database, WebSettings(mask=("$.card.*",))) as client:
        assert "4111" not in await shown(client, f"/failed/message/{row_id}")
        assert row_id not in await shown(client, text="4111")
        assert row_id in await shown(client, text="ORD-1")
        assert (await client.get(f"/failed/message/{row_id}/edit")).status_code in {403, 409}


# ------------------------------------------------------------------------------------------------------------ message


async def test_a_message_is_shown_with_all_that_is_known_of_it(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    conversation = {Header.CONVERSATION_ID: "C1"}
    row_id = errors.add("one", hour=2, body=b'{"order": {"id": "ORD-1", "sum": 1.50}}', more=conversation)
    errors.add("two", hour=3, queue=BILLING, type="Shop.ChargeCard", more=conversation)
    errors.add("before", hour=1, queue=None, type="Shop.OpenCart", to="audit", more=conversation)

    await shown(client)
    written = await shown(client, f"/failed/message/{row_id}")
    page, group = text_of(written), written.partition("group=")[2].partition('"')[0]

    assert row_id in await shown(client, group=group)
    for said in (
        "Traceback (most recent call last):",
        "at shop.place_order()",
        "id : &#34;ORD-1&#34;",
        "sum : 1.50",
    ):
        assert said in page, said
    assert page.index("OpenCart") < page.index("✕ PlaceOrder") < page.index("✕ ChargeCard")
    assert "sent by Website" in page
    assert Header.MESSAGE_ID in page


def test_calls_of_ours_are_folded_between_the_users() -> None:
    def call(path: str) -> str:
        return f'  File "{path}", line 3, in run\n    await step()\n'

    head, last = "Traceback (most recent call last):\n", "ValueError: no\n"
    ours = call("/v/site-packages/rowbus/endpoint/pipeline.py") + call("/usr/lib/python3.11/asyncio/tasks.py")
    users = call("/srv/rowbus/shop.py")

    assert list(folded(f"{head}{ours}{users}{last}")) == [
        Calls(head),
        Calls(ours, hidden=2),
        Calls(f"{users}{last}"),
    ]


async def test_a_message_that_was_sent_back_tells_of_its_attempts_and_who_did_it(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    row = errors.add(more={Header.PROCESSING_MACHINE: "host-1"})
    await confirm(client, "/failed/retry", {**ALL, "which": "ticked", "row": [row]})
    (headers,) = errors.headers("Sales")
    for broken in ("[", '[{"time": 1}]'):
        other = errors.add(more={Header.ATTEMPTS: broken})
        assert "sent back by" not in await shown(client, f"/failed/message/{other}")
    again = errors.add(
        "again", exception="bank.DeclinedError", more={Header.ATTEMPTS: headers[Header.ATTEMPTS]}
    )

    page = text_of(await shown(client, f"/failed/message/{again}"))

    for said in (
        "Sales on host-1",
        "shop.OutOfStockError",
        "shop.place_order() in",
        "sent back by",
        "another than before",
        "Exception shop.OutOfStockError bank.DeclinedError another",
        "Reason no tents (the same)",
    ):
        assert said in page, said


def test_any_two_attempts_are_compared_and_other_numbers_mean_the_last_two() -> None:
    tried = [
        PastAttempt(f"2026-05-01 12:0{minute}:00:000000 Z", "Sales on a", exception, "no", then=then)
        for minute, exception, then in ((0, "A", "retried"), (1, "B", "retried"), (2, "B", "given up on"))
    ]

    def differing(**asked: str) -> tuple[int, int, str, list[str]]:
        found = compared(tried, asked)
        assert found is not None
        return found.first, found.second, found.apart, [line.what for line in found.lines if line.differs]

    assert differing() == (2, 3, "1 min", ["Then"])
    assert differing(first="1", second="3") == (1, 3, "2 min", ["Exception", "Then"])
    assert differing(first="3", second="1") == (3, 1, "2 min", ["Exception", "Then"])
    for strange in ("0", "4", "-1", "x", "\u0663", "9" * 5000):
        assert differing(first=strange, second=strange) == differing()
    assert compared(tried[:1], {}) is None


def test_what_an_endpoint_sends_to_itself_is_drawn_as_a_loop() -> None:
    steps = [Step(to, "Shop.PlaceOrder", "Sales", to, None, has_failed=False) for to in ("Sales", "Billing")]

    assert [arrow.is_loop for arrow in drawn(steps).arrows] == [True, False]


def test_xml_is_indented_by_the_depth_of_its_tags() -> None:
    text = bodies.shown(b'<?xml version="1.0"?><Order><Gift/><Lines><Line>7</Line></Lines></Order>').text

    assert text.splitlines() == [
        '<?xml version="1.0"?>',
        "<Order>",
        "  <Gift/>",
        "  <Lines>",
        "    <Line>7</Line>",
        "  </Lines>",
        "</Order>",
    ]


@pytest.mark.one_version
@every(
    "body, said",
    [
        (b"<Order><Id>7</Id></Order>", "&lt;Id&gt;7&lt;/Id&gt;"),
        (b"just text", "just text"),
        (b"\xff\x00\x01binary", "00000000 ff 00 01 62 69 6e 61 72 79 ...binary"),
        (b"", "The message has no body."),
        (None, "The message has no body."),
        (b"[" * 5000, "[[["),
        (b'{"big": 123456789012345678901234567890, "odd": NaN}', "123456789012345678901234567890"),
    ],
)
async def test_every_kind_of_body_can_be_read(
    client: httpx.AsyncClient, errors: ErrorQueue, body: bytes | None, said: str
) -> None:
    row_id = errors.add(body=body)

    assert said in text_of(await shown(client, f"/failed/message/{row_id}"))


@pytest.mark.one_version
async def test_what_is_gone_or_no_message_is_said(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    errors.add_acknowledgement()
    ((row_id,),) = errors.connection.execute("select id from error").fetchall()

    for path in ("no-id", "00000000-0000-4000-8000-000000000000", str(row_id)):
        assert (await client.get(f"/failed/message/{path}")).status_code == 404, path


@pytest.mark.one_version
async def test_hostile_text_is_shown_as_text_on_every_page(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    more = {Header.CONVERSATION_ID: HOSTILE, "x": HOSTILE, HOSTILE: "y", Header.EXCEPTION_TRACEBACK: HOSTILE}
    more |= {Header.ORIGINATING_ENDPOINT: HOSTILE, Header.EDIT_OF: HOSTILE}
    body = json.dumps({HOSTILE: [HOSTILE]}, ensure_ascii=False).encode()
    queue = '"public"."' + HOSTILE.replace('"', '""') + '"'
    row_id = errors.add(
        HOSTILE, exception=HOSTILE, reason=HOSTILE, type=HOSTILE, body=body, queue=queue, more=more
    )
    unreadable = errors.add_row(HOSTILE, HOSTILE.encode())
    token = client.site.seals.token("form", key_of(client))  # type: ignore[attr-defined] # conftest's
    form = {"csrf": token, "queue": "error"}

    answers = [
        await client.get(path)
        for path in (
            "/failed",
            "/failed?by=type",
            "/failed?by=endpoint",
            "/failed?text=script",
            f"/failed/message/{row_id}",
            f"/failed/message/{unreadable}",
            f"/failed/message/{row_id}/edit",
        )
    ]
    answers += [await client.get("/failed", params={"text": HOSTILE, "type": HOSTILE, "id": HOSTILE})]
    answers += [await client.post(f"/failed/{verb}", data=form) for verb in ("retry", "discard")]
    answers += [
        await client.post(
            "/failed/send", data={**form, "row": row_id, "body": HOSTILE, "header": "a", "value": HOSTILE}
        )
    ]

    for answer in answers:
        assert answer.status_code == (400 if answer.url.path == "/failed/send" else 200), (
            answer.url
        )  # no JSON
        assert "<script>alert" not in answer.text, answer.url
        # A form's field keeps what it is given; nothing else has what turns the direction of writing.
        fieldless = [
            line
            for line in answer.text.splitlines()
            if "<input" not in line and "textarea" not in line and not line.startswith(("{", "  ", "]"))
        ]
        assert "\u202e" not in "".join(fieldless), answer.url
        assert "\x1b" not in "".join(fieldless), answer.url


@pytest.mark.one_version
async def test_what_a_sender_made_long_is_cut_and_holds_up_nobody_else(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    """One header of 500 kB, in which one letter is odd, froze the page for everybody for 37 s."""
    threads = set[threading.Thread]()

    def noting(value: datetime | None) -> Markup:
        threads.add(threading.current_thread())
        return moment(value)

    client.site.templates.filters["moment"] = noting  # type: ignore[attr-defined] # conftest's
    long = "x" * 250_000 + "\x1b" + "x" * 250_000
    many = {f"{Header.EXCEPTION_DATA_PREFIX}{number}": "\x1bx" * 50 for number in range(2_000)}

    trace = {Header.EXCEPTION_TRACEBACK: "\x1bx" * 120_000}
    for more, most in (
        ({"x": long}, 30_000),
        ({long: ""}, 30_000),
        ({"x": long * 4}, LONGEST_LINES + 1),  # too much to be read as headers
        (trace, 30_000),
        (many, 30_000),
    ):
        written = await shown(client, f"/failed/message/{errors.add(more=more)}")
        assert len(written) < 5_000_000
        assert "x" * most not in written
        assert re.search(r"[\d,]+ characters\]|and [\d,]+ headers more", written), "it does not say so"
    assert threads
    assert threading.main_thread() not in threads


# ------------------------------------------------------------------------------------------------------------ actions


async def test_a_group_goes_back_and_is_noted(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    for number in range(3):
        errors.add(f"tent-{number}")
    errors.add("card", exception="System.TimeoutException", queue=BILLING)
    errors.add_acknowledgement()
    group = (await shown(client)).partition("group=")[2].partition('"')[0]

    done = text_of((await confirm(client, "/failed/retry", {"queue": "error", "group": group})).text)

    assert "3 messages sent back: &#34;public&#34;.&#34;Sales&#34;" in done
    assert errors.ids("Sales") == ["tent-0", "tent-1", "tent-2"]
    assert errors.ids() == ["card", ""]
    assert all(Header.EXCEPTION_TYPE not in headers for headers in errors.headers("Sales"))
    ((person, *noted),) = errors.operations()
    assert person.endswith("by ticket")
    assert noted == ["retry", ERROR, 3, 3, 0, "done"]
    ((subject,),) = errors.connection.execute('select subject from "Rowbus.Operations"').fetchall()
    assert "failed in" in subject
    assert group not in subject


async def test_those_ticked_go_back(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    rows = [errors.add(f"m-{number}") for number in range(4)]

    await confirm(client, "/failed/retry", {"queue": "error", "which": "ticked", "row": [rows[1], rows[3]]})

    assert errors.ids("Sales") == ["m-1", "m-3"]


async def test_all_that_a_search_finds_goes_back(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    for number in range(5):
        errors.add(f"m-{number}", body=json.dumps({"city": "Oslo" if number % 2 else "Bern"}).encode())

    asked = {"queue": "error", "text": "Oslo", "type": "PlaceOrder"}
    await confirm(client, "/failed/retry", dict(asked))

    assert errors.ids("Sales") == ["m-1", "m-3"]


async def test_those_that_cannot_go_back_stay_with_the_reason(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    errors.add("lost", queue=None)
    errors.add("gone", queue='"public"."Nowhere"')
    errors.add("far", queue='"elsewhere"."Sales"')

    done = text_of((await confirm(client, "/failed/retry", ALL)).text)

    assert "No message was sent back." in done
    assert "which does not exist" in done
    assert len(errors.ids()) == 3
    assert errors.operations()[0][3:] == (3, 0, 3, "done")


@pytest.mark.one_version
async def test_a_question_says_how_many_and_where_they_go(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    errors.add("one")
    errors.add("two", queue=BILLING)
    asked = text_of((await client.post("/failed/retry", data={"csrf": token_of(client), **ALL})).text)

    assert "Send 2 messages back?" in asked
    assert "1 message to &#34;public&#34;.&#34;Billing&#34;" in asked
    assert len(errors.ids()) == 2


async def test_messages_are_discarded_and_brought_back(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    errors.add("one")
    errors.add_acknowledgement()

    done = await confirm(client, "/failed/discard", ALL)

    assert errors.ids() == [""]
    assert errors.operations()[0][1:] == ("discard", ERROR, 1, 1, 0, "done")
    undo = f"{done.url.path}/undo"
    assert undo in done.text
    assert "1 message came back" in (await confirm(client, undo, {})).text
    assert errors.ids() == ["", "one"]
    assert (await client.post(undo, data={"csrf": token_of(client)})).status_code == 400


async def test_an_edited_message_is_a_new_one(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    row_id = errors.add("old", body=b'{\n"sum": 1}', more={"tenant": "north", "left": "out"})
    form = {"queue": "error", "row": row_id, "body": '{\r\n"sum": 2}'}
    fields = {"header": ["tenant", "", "added"], "value": ["south", "nothing", "now"]}

    done = text_of((await confirm(client, "/failed/send", {**form, **fields})).text)

    assert "Sent to &#34;public&#34;.&#34;Sales&#34;" in done
    assert errors.ids() == []
    ((body, headers),) = errors.connection.execute('select body, headers from "Sales"').fetchall()
    sent = json.loads(headers)
    assert bytes(body) == b'{\n"sum": 2}'
    assert sent[Header.EDIT_OF] == "old"
    assert sent[Header.MESSAGE_ID] not in {"", "old"}
    assert (sent["tenant"], sent["added"], sent.get("left")) == ("south", "now", None)
    assert Header.EXCEPTION_TYPE not in sent
    assert sent[Header.ENCLOSED_MESSAGE_TYPES] == "Shop.PlaceOrder"
    assert errors.operations()[0][1:] == ("edit and retry", ERROR, 1, 1, 0, "done")


async def test_an_edited_body_has_to_be_json_and_its_difference_is_shown(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    row_id = errors.add("old", body=b'{"sum":1.10,"to":[],"of":{"a":"x, y"}}')
    form = {"csrf": token_of(client), "queue": "error", "row": row_id}

    page = (await client.get(f"/failed/message/{row_id}/edit", params={"queue": "error"})).text
    shown_body = html.unescape(page.partition('spellcheck="false">\n')[2].partition("</textarea>")[0])
    broken = await client.post("/failed/send", data={**form, "body": '{"sum": '})
    asked = await client.post("/failed/send", data={**form, "body": shown_body.replace("1.10", "2")})
    same = await client.post("/failed/send", data={**form, "body": shown_body.replace("\n", "\r\n")})

    assert shown_body.splitlines() == [
        "{",
        '  "sum": 1.10,',
        '  "to": [],',
        '  "of": {',
        '    "a": "x, y"',
        "  }",
        "}",
    ]
    assert "The body is not JSON" in broken.text
    assert "-  &#34;sum&#34;: 1.10,\n+  &#34;sum&#34;: 2," in asked.text
    assert "Nothing was changed" in same.text


@pytest.mark.one_version
async def test_headers_of_the_framework_are_not_edited(client: httpx.AsyncClient, errors: ErrorQueue) -> None:
    row_id = errors.add("old")
    form = {"queue": "error", "row": row_id, "body": "{}"}

    await confirm(
        client, "/failed/send", {**form, "header": Header.MESSAGE_ID, "value": "forged"}, expect=400
    )

    assert errors.ids() == ["old"]


@pytest.mark.one_version
async def test_a_job_stops_between_two_batches(
    client: httpx.AsyncClient, errors: ErrorQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        errors.add(f"m-{number}")
    monkeypatch.setattr("rowbus.web.failed.acting.BATCH", 2)
    site = client.site  # type: ignore[attr-defined] # conftest's
    retry_some = Errors.retry_some

    def stopping(self: Errors, messages: list[object]) -> Result:
        next(iter(site.operations)).stopping = True
        return retry_some(self, messages)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(Errors, "retry_some", stopping)
    done = text_of((await confirm(client, "/failed/retry", ALL)).text)

    assert "stopped" in done
    assert errors.ids("Sales") == ["m-0", "m-1"]
    assert errors.operations()[0][3:] == (5, 2, 0, "stopped")


@pytest.mark.one_version
@pytest.mark.parametrize("where", ["page", "command line"])
async def test_two_who_retry_a_group_at_once_get_credit_for_what_was_theirs_and_hear_of_each_other(
    client: httpx.AsyncClient,
    errors: ErrorQueue,
    rowbus: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    for number in range(5):
        errors.add(f"m-{number}")
    monkeypatch.setattr("rowbus.web.failed.acting.BATCH", 2)
    retry_some, began, heard = Errors.retry_some, list[str](), list[str]()

    def joining(self: Errors, messages: list[object]) -> Result:
        began.append("a batch")
        if len(began) == 2:  # of the first person's
            heard.append(
                asyncio.run(_retry_on_another_page(rowbus.database))
                if where == "page"
                else rowbus("errors", "retry", "--exception", "OutOfStockError").stderr
            )
        return retry_some(self, messages)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(Errors, "retry_some", joining)
    told = text_of((await confirm(client, "/failed/retry", ALL)).text)

    assert sorted(errors.ids("Sales")) == [f"m-{number}" for number in range(5)]
    first, second = errors.operations()
    assert (first[4:], second[4:]) == ((2, 3, "done"), (3, 0, "done"))
    assert (", by ticket" if where == "page" else ", role ") in second[0]
    assert f"{second[0]} worked here, too, from" in told
    assert "retry, 3 done" in told
    assert re.search(r"by ticket began this at [0-9:]{8} UTC, and it runs: retry, 2 done", heard[0])


async def _retry_on_another_page(database: str) -> str:
    async with browser(database, WebSettings(period=0.05)) as client:
        await looked_at(client)
        return text_of((await confirm(client, "/failed/retry", ALL)).text)


@pytest.mark.one_version
async def test_a_viewer_can_do_none_of_it(database: str, errors: ErrorQueue) -> None:
    row_id = errors.add("one")
    form = {"queue": "error", "row": row_id, "confirmed": "yes"}
    async with browser(database, WebSettings(read_only=True, period=0.05)) as client:
        await looked_at(client)
        token = client.site.seals.token("form", key_of(client))  # type: ignore[attr-defined] # conftest's
        for verb in ("retry", "discard", "send"):
            assert (await client.post(f"/failed/{verb}", data={"csrf": token, **form})).status_code == 403
        assert (await client.get(f"/failed/message/{row_id}/edit")).status_code == 403
        for path in ("/failed", "/failed?type=PlaceOrder", f"/failed/message/{row_id}"):
            page = await shown(client, path)
            assert 'method="post"' not in page
            assert "Discard" not in page
    assert errors.ids() == ["one"]


@pytest.mark.one_version
async def test_an_action_without_the_forms_token_is_refused(
    client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    errors.add("one")

    for verb in ("retry", "discard", "send"):
        answer = await client.post(f"/failed/{verb}", data={"queue": "error", "confirmed": "yes"})
        assert answer.status_code == 403

    assert errors.ids() == ["one"]


@pytest.mark.one_version
async def test_a_role_that_may_not_note_operations_does_nothing(
    database: str, errors: ErrorQueue, client: httpx.AsyncClient
) -> None:
    errors.add("one")
    errors.connection.execute("create role rowbus_may_not_note login")
    try:
        errors.connection.execute(
            'grant select, insert, update, delete on error, "Sales" to rowbus_may_not_note'
        )
        errors.connection.execute("revoke create on schema public from public")
        await _acts_as_another(database, errors)
    finally:
        errors.connection.execute("drop owned by rowbus_may_not_note")
        errors.connection.execute("drop role rowbus_may_not_note")


async def _acts_as_another(database: str, errors: ErrorQueue) -> None:
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415

    async with browser(
        make_conninfo(database, user="rowbus_may_not_note"), WebSettings(period=0.05)
    ) as client:
        await looked_at(client)
        done = text_of((await confirm(client, "/failed/retry", ALL)).text)

        assert "Nothing was done: what is done is kept in" in done
        assert errors.ids() == ["one"]
        assert errors.ids("Sales") == []

        refused = text_of((await confirm(client, "/failed/discard", ALL, expect=400)).text)

        assert (
            "Nothing was discarded: the role rowbus_may_not_note needs SELECT, INSERT, UPDATE and DELETE"
            in refused
        )
        assert "rowbus schema grants --web --role rowbus_may_not_note" in refused
        assert errors.ids() == ["one"]


@pytest.mark.one_version
async def test_an_operation_is_known_after_a_restart_and_can_be_stopped_there(
    database: str, client: httpx.AsyncClient, errors: ErrorQueue
) -> None:
    errors.add("one")
    done = await confirm(client, "/failed/retry", ALL)
    errors.connection.execute("""update "Rowbus.Operations" set state = 'running'""")

    async with browser(database) as other:
        assert "1 of 1" in text_of(await shown(other, done.url.path))
        assert done.url.path in await shown(other, "/operations")
        errors.add("two")
        asked = text_of((await client.post("/failed/retry", data={"csrf": token_of(client), **ALL})).text)
        await confirm(other, f"{done.url.path}/stop", {})

    assert errors.operations()[0][-1] == "stopping"
    assert "by ticket began this at" in asked


@pytest.mark.one_version
async def test_a_job_hears_a_wish_to_stop_from_another_process(
    client: httpx.AsyncClient, errors: ErrorQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        errors.add(f"m-{number}")
    monkeypatch.setattr("rowbus.web.failed.acting.BATCH", 2)
    retry_some = Errors.retry_some

    def stopping(self: Errors, messages: list[object]) -> Result:
        errors.connection.execute("""update "Rowbus.Operations" set state = 'stopping'""")
        return retry_some(self, messages)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(Errors, "retry_some", stopping)
    await confirm(client, "/failed/retry", ALL)

    assert errors.ids("Sales") == ["m-0", "m-1"]
    assert errors.operations()[0][3:] == (5, 2, 0, "stopped")
