"""The headers of what is sent: the standard ones, what is inherited from the message in hand, the caller's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rowbus
from rowbus.errors import InvalidHeaderError
from rowbus.messages.headers import Header, Identity, decode_headers, encode_headers, parse_enclosed_types
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.outgoing import COMPATIBLE_VERSION, Content, Options, Origin, compose
from tests.fixtures.every import every

patiently = settings(deadline=None, max_examples=60)

NOW = datetime(2026, 4, 29, 21, 56, 55, 590807, tzinfo=UTC)
CONTENT = Content(b'{"order_id":"42"}', "application/json", ("Shop.PlaceOrder", "Shop.ICommand"))
SALES = Origin(Identity("Sales", "machine-7", "0123456789abcdef0123456789abcdef"), '"public"."Sales"')
INCOMING: dict[str, str | None] = {
    Header.MESSAGE_ID: "incoming",
    Header.CONVERSATION_ID: "conversation",
    Header.CORRELATION_ID: "correlation",
}


def composed(
    intent: str = "Send",
    *,
    origin: Origin = SALES,
    incoming: dict[str, str | None] | None = None,
    headers: dict[str, str] | None = None,
    time_to_be_received: timedelta | None = None,
    new_conversation: bool = False,
) -> OutgoingMessage:
    return compose(
        CONTENT,
        intent=intent,
        message_id="own",
        now=NOW,
        origin=origin,
        incoming=incoming,
        options=Options(headers, time_to_be_received, new_conversation),
    )


def test_the_standard_headers_are_set() -> None:
    assert composed().headers == {
        "NServiceBus.MessageId": "own",
        "NServiceBus.MessageIntent": "Send",
        "NServiceBus.ContentType": "application/json",
        "NServiceBus.EnclosedMessageTypes": (
            "Shop.PlaceOrder, Shop, Version=0.0.0.0, Culture=neutral, PublicKeyToken=null;"
            "Shop.ICommand, Shop, Version=0.0.0.0, Culture=neutral, PublicKeyToken=null"
        ),
        "NServiceBus.OpenTelemetry.StartNewTrace": "False",
        "NServiceBus.CorrelationId": "own",
        "NServiceBus.ConversationId": "own",
        "NServiceBus.TimeSent": "2026-04-29 21:56:55:590807 Z",
        "NServiceBus.Version": COMPATIBLE_VERSION,
        "NServiceBus.OriginatingEndpoint": "Sales",
        "NServiceBus.OriginatingMachine": "machine-7",
        "$.diagnostics.originating.hostid": "0123456789abcdef0123456789abcdef",
        "NServiceBus.ReplyToAddress": '"public"."Sales"',
    }


def test_the_body_goes_as_it_is() -> None:
    assert composed().body == CONTENT.body


def test_a_bare_client_names_no_endpoint_and_takes_no_replies() -> None:
    headers = composed(origin=Origin()).headers

    assert Header.ORIGINATING_ENDPOINT not in headers
    assert Header.REPLY_TO_ADDRESS not in headers


def test_outside_a_handler_a_conversation_begins() -> None:
    headers = composed().headers

    assert headers[Header.CONVERSATION_ID] == headers[Header.CORRELATION_ID] == "own"
    assert Header.RELATED_TO not in headers


def test_a_handlers_message_continues_conversation_and_correlation_and_names_what_it_is_related_to() -> None:
    headers = composed(incoming=INCOMING).headers

    assert headers[Header.CONVERSATION_ID] == "conversation"
    assert headers[Header.CORRELATION_ID] == "correlation"
    assert headers[Header.RELATED_TO] == "incoming"
    assert headers[Header.MESSAGE_ID] == "own"


@every("absent", [{}, {Header.CORRELATION_ID: None}, {Header.CORRELATION_ID: ""}])
def test_without_an_incoming_correlation_the_incoming_message_is_it(absent: dict[str, str | None]) -> None:
    headers = composed(incoming={Header.MESSAGE_ID: "incoming", **absent}).headers

    assert headers[Header.CORRELATION_ID] == "incoming"


@every("absent", [{}, {Header.CONVERSATION_ID: None}, {Header.CONVERSATION_ID: ""}])
def test_without_an_incoming_conversation_one_begins(absent: dict[str, str | None]) -> None:
    headers = composed(incoming={Header.MESSAGE_ID: "incoming", **absent}).headers

    assert headers[Header.CONVERSATION_ID] == "own"


def test_a_new_conversation_names_the_previous_one() -> None:
    headers = composed(incoming=INCOMING, new_conversation=True).headers

    assert headers[Header.CONVERSATION_ID] == "own"
    assert headers[Header.PREVIOUS_CONVERSATION_ID] == "conversation"


def test_the_trace_is_carried_on() -> None:
    trace: dict[str, str | None] = {"traceparent": "00-1-2-01", "tracestate": "a=b", "baggage": "c=d"}

    headers = composed(incoming={**INCOMING, **trace}).headers

    assert {name: headers[name] for name in trace} == trace


def test_a_trace_that_is_not_there_is_not_invented() -> None:
    assert "traceparent" not in composed(incoming={**INCOMING, "traceparent": None}).headers


def test_other_headers_are_not_inherited() -> None:
    assert "Shop.Tenant" not in composed(incoming={**INCOMING, "Shop.Tenant": "42"}).headers


def test_a_reply_is_addressed_to_the_saga_that_asked() -> None:
    saga: dict[str, str | None] = {
        Header.ORIGINATING_SAGA_ID: "s-1",
        Header.ORIGINATING_SAGA_TYPE: "Shop.OrderSaga",
    }

    headers = composed("Reply", incoming={**INCOMING, **saga}).headers

    assert headers[Header.SAGA_ID] == "s-1"
    assert headers[Header.SAGA_TYPE] == "Shop.OrderSaga"
    assert headers[Header.MESSAGE_INTENT] == "Reply"


def test_only_a_reply_is() -> None:
    headers = composed("Send", incoming={**INCOMING, Header.ORIGINATING_SAGA_ID: "s-1"}).headers

    assert Header.SAGA_ID not in headers


def test_the_time_to_be_received_is_also_told_in_a_header() -> None:
    message = composed(time_to_be_received=timedelta(minutes=1, microseconds=1))

    assert message.time_to_be_received == timedelta(minutes=1, microseconds=1)
    assert message.headers[Header.TIME_TO_BE_RECEIVED] == "00:01:00.0000010"


@every("span", [timedelta(0), timedelta(microseconds=-1), timedelta(days=-1)])
def test_a_time_to_be_received_must_be_longer_than_nothing(span: timedelta) -> None:
    with pytest.raises(InvalidHeaderError, match="it must be longer than nothing") as caught:
        composed(time_to_be_received=span)
    assert caught.value.header == Header.TIME_TO_BE_RECEIVED


def test_the_callers_headers_are_added_and_win() -> None:
    headers = composed(
        incoming=INCOMING,
        headers={"Shop.Tenant": "42", Header.MESSAGE_ID: "mine", Header.CORRELATION_ID: "c"},
    ).headers

    assert headers["Shop.Tenant"] == "42"
    assert headers[Header.MESSAGE_ID] == "mine"
    assert headers[Header.CORRELATION_ID] == "c"


def test_an_inherited_conversation_cannot_be_overridden() -> None:
    with pytest.raises(InvalidHeaderError, match="new_conversation=True") as caught:
        composed(incoming=INCOMING, headers={Header.CONVERSATION_ID: "mine"})
    assert caught.value.header == Header.CONVERSATION_ID


def test_outside_a_handler_a_conversation_may_be_given() -> None:
    assert composed(headers={Header.CONVERSATION_ID: "mine"}).headers[Header.CONVERSATION_ID] == "mine"


@every(
    "headers, reason",
    [
        ({"name": "\ud800"}, "surrogate"),
        ({Header.TIME_SENT: "yesterday"}, "timestamp"),
        ({"name": 7}, "its value is int"),
        (["name"], "give texts by their names"),
        ({Header.MESSAGE_ID: ""}, "needs an id"),
    ],
)
def test_headers_nobody_could_read_are_refused(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidHeaderError, match=reason):
        composed(headers=headers)


def test_the_time_sent_may_be_given_if_it_is_well_formed() -> None:
    headers = composed(headers={Header.TIME_SENT: "2020-01-01 00:00:00:000000 Z"}).headers

    assert headers[Header.TIME_SENT] == "2020-01-01 00:00:00:000000 Z"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.sampled_from(
    [
        Header.MESSAGE_ID,
        Header.CONVERSATION_ID,
        Header.CORRELATION_ID,
        Header.ORIGINATING_SAGA_ID,
        "traceparent",
    ]
)


@patiently
@given(
    incoming=st.none() | st.dictionaries(names | texts, st.none() | texts, max_size=6),
    intent=st.sampled_from(["Send", "Reply"]),
    new_conversation=st.booleans(),
)
def test_whatever_came_in_what_goes_out_can_be_sent_read_and_followed(
    *, incoming: dict[str, str | None] | None, intent: str, new_conversation: bool
) -> None:
    headers = composed(intent, incoming=incoming, new_conversation=new_conversation).headers
    read = decode_headers(encode_headers(headers))

    assert read[Header.MESSAGE_ID] == "own"
    assert read[Header.CONVERSATION_ID]
    before = (incoming or {}).get(Header.CONVERSATION_ID)
    assert not before or before in {read[Header.CONVERSATION_ID], read.get(Header.PREVIOUS_CONVERSATION_ID)}


# ------------------------------------------------------------------------------------------------------------- tracing

TRACE: dict[str, str | None] = {
    "traceparent": "00-b23c64f57b0edf3acb3bca9024eeb523-ba5bd5bebb5731a5-01",
    "tracestate": "vendor=abc",
    "baggage": "user=7",
}


def delayed(intent: str, incoming: dict[str, str | None] | None = None) -> OutgoingMessage:
    options = Options(delay=timedelta(seconds=1))
    return compose(CONTENT, intent=intent, message_id="own", now=NOW, incoming=incoming, options=options)


def wish(message: OutgoingMessage) -> str | None:
    return message.headers.get(Header.START_NEW_TRACE)


def test_a_send_continues_a_trace_an_event_begins_one_and_a_reply_says_nothing() -> None:
    assert [wish(composed(intent)) for intent in ("Send", "Publish", "Reply")] == ["False", "True", None]


def test_what_is_delayed_begins_a_trace_if_there_is_one() -> None:
    incoming = {**INCOMING, **TRACE}

    assert [wish(delayed(intent)) for intent in ("Send", "Reply")] == ["False", None]
    assert [wish(delayed(intent, incoming)) for intent in ("Send", "Reply")] == ["True", "True"]


def test_a_callers_wish_wins() -> None:
    assert wish(composed(headers={Header.START_NEW_TRACE: "True"})) == "True"
    assert wish(composed("Publish", headers={Header.START_NEW_TRACE: "False"})) == "False"


@every("wished", [None, "False", "", "nonsense"])
def test_the_trace_goes_on_unless_a_new_one_is_wished(wished: str | None) -> None:
    headers = composed(incoming={**INCOMING, **TRACE, Header.START_NEW_TRACE: wished}).headers

    assert {name: headers[name] for name in TRACE} == TRACE


@every("wished", ["True", "true"])
def test_the_messages_of_a_handler_whose_message_wishes_it_begin_one_new_trace(wished: str) -> None:
    incoming = {**INCOMING, **TRACE, Header.START_NEW_TRACE: wished}

    first, second = composed(incoming=incoming).headers, composed("Reply", incoming=incoming).headers
    other = composed(incoming={**incoming, Header.MESSAGE_ID: "another"}).headers

    version, trace, span, flags = (first["traceparent"] or "").split("-")
    assert (version, flags, len(trace), len(span)) == ("00", "01", 32, 16)
    assert trace not in {"b23c64f57b0edf3acb3bca9024eeb523", "0" * 32}
    assert first["traceparent"] == second["traceparent"] != other["traceparent"]
    assert (first["tracestate"], first["baggage"]) == ("vendor=abc", "user=7")


def test_a_trace_that_cannot_be_read_ends_where_a_new_one_is_wished() -> None:
    headers = composed(incoming={**INCOMING, "traceparent": "x", Header.START_NEW_TRACE: "True"}).headers

    assert "traceparent" not in headers


# --------------------------------------------------------------------------------------------------------------- types


def types_of(*names: str, headers: dict[str, str] | None = None) -> str | None:
    content = CONTENT._replace(types=names)
    options = Options(headers)
    message = compose(content, intent="Send", message_id="own", now=NOW, options=options)
    return message.headers[Header.ENCLOSED_MESSAGE_TYPES]


@rowbus.message("Own.Declared", assembly="Own.Messages", parents=("Own.IParent", "Own.Versioned"))
class Declared: ...


@rowbus.event("Own.Versioned", assembly="Own.Messages, Version=1.2.0.0")
class Versioned: ...


MORE = ", Version=0.0.0.0, Culture=neutral, PublicKeyToken=null"
OWN = "Own.Versioned, Own.Messages, Version=1.2.0.0, Culture=neutral, PublicKeyToken=null"


@every(
    "names, header",
    [
        (["Shop.PlaceOrder"], "Shop.PlaceOrder"),
        (["A", "B.C", "D.E+F"], f"A, A{MORE};B.C, B{MORE};D.E+F, D{MORE}"),
        (["A, Shop", "B"], f"A, Shop;B, B{MORE}"),
        (["A`1[[B, Shop]]", "B"], f"A`1[[B, Shop]], A{MORE};B, B{MORE}"),
        (["Own.Declared"], f"Own.Declared, Own.Messages{MORE}"),
        (["Own.Versioned"], OWN),
        (
            ["Own.Declared", "Own.IParent", "Own.Versioned"],
            f"Own.Declared, Own.Messages{MORE};Own.IParent, Own.Messages{MORE};{OWN}",
        ),
    ],
)
def test_types_have_an_assembly_that_dotnet_reads_if_there_are_several_or_one_is_declared(
    names: list[str], header: str
) -> None:
    assert types_of(*names) == header
    assert parse_enclosed_types(header) == tuple(
        name.partition(", ")[0] if "[" not in name else name for name in names
    )


@every("assembly", ["", " ", "A;B", "A\n"])
def test_what_is_no_assembly_is_refused(assembly: str) -> None:
    with pytest.raises(rowbus.ConfigurationError, match="is no assembly"):
        rowbus.command("Own.Refused", assembly=assembly)


@every("name", ["A;", "A; ", ";A", "A;;"])
def test_there_is_never_an_empty_type(name: str) -> None:
    assert types_of(name) == "A"


def test_nor_at_the_end_of_a_header_of_the_callers() -> None:
    assert types_of("A", headers={Header.ENCLOSED_MESSAGE_TYPES: "B;C;"}) == "B;C"


def test_a_message_id_of_yours_may_have_200_characters_as_nets_outbox_stores_them() -> None:
    longest = "ä" * 200
    assert composed(headers={Header.MESSAGE_ID: longest}).headers[Header.MESSAGE_ID] == longest

    with pytest.raises(InvalidHeaderError, match="201 characters; an id may have 200") as caught:
        composed(headers={Header.MESSAGE_ID: longest + "ä"})
    assert caught.value.header == Header.MESSAGE_ID
