"""Equal sends collapse: one row per message id and destination, the last wins in the place of the first."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import Send, by_destination, deduplicate
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage

patiently = settings(deadline=None, max_examples=60)


def send(message_id: str | None, queue: str, body: bytes = b"") -> Send:
    headers = {} if message_id is None else {Header.MESSAGE_ID: message_id}
    return Send(QueueAddress("public", queue), OutgoingMessage(headers, body))


def test_the_last_of_equal_sends_takes_the_place_of_the_first() -> None:
    sends = [send("a", "Sales", b"1"), send("b", "Sales", b"2"), send("a", "Sales", b"3")]

    assert list(deduplicate(sends)) == [send("a", "Sales", b"3"), send("b", "Sales", b"2")]


def test_the_same_message_may_go_to_several_queues() -> None:
    sends = [send("a", "Sales"), send("a", "Billing")]

    assert list(deduplicate(sends)) == sends


def test_addresses_are_compared_not_spellings() -> None:
    plain, quoted = QueueAddress.parse("Sales"), QueueAddress.parse('"public"."Sales"')
    message = OutgoingMessage({Header.MESSAGE_ID: "a"})

    assert len(deduplicate([Send(plain, message), Send(quoted, message)])) == 1


def test_queues_of_the_same_name_in_two_schemas_are_two() -> None:
    message = OutgoingMessage({Header.MESSAGE_ID: "a"})
    sends = [Send(QueueAddress(schema, "Sales"), message) for schema in ("one", "two")]

    assert list(deduplicate(sends)) == sends


def test_messages_without_an_id_are_all_kept() -> None:
    sends = [send(None, "Sales"), send(None, "Sales"), send("", "Sales"), send("", "Sales")]

    assert list(deduplicate(sends)) == sends


def test_nothing_and_one_are_left_as_they_are() -> None:
    one = [send("a", "Sales")]

    assert list(deduplicate([])) == []
    assert deduplicate(one) is one


def test_groups_keep_the_order_within_each_queue() -> None:
    sends = [send("a", "Sales"), send("b", "Billing"), send("c", "Sales")]

    groups = by_destination(sends)

    assert groups == {
        QueueAddress("public", "Sales"): [sends[0].message, sends[2].message],
        QueueAddress("public", "Billing"): [sends[1].message],
    }


any_sends = st.lists(
    st.builds(
        send,
        st.sampled_from([None, "", "a", "b", "c"]),
        st.sampled_from(["Sales", "Billing"]),
        st.binary(max_size=2),
    )
)


@patiently
@given(any_sends)
def test_after_collapsing_each_id_is_there_once_for_each_queue_and_nothing_else_is_lost(
    sends: list[Send],
) -> None:
    kept = list(deduplicate(sends))

    def keys(some: list[Send]) -> list[tuple[str, QueueAddress]]:
        return [(one.message.headers[Header.MESSAGE_ID] or "", one.destination) for one in some if named(one)]

    def named(one: Send) -> bool:
        return bool(one.message.headers.get(Header.MESSAGE_ID))

    assert keys(kept) == list(dict.fromkeys(keys(sends))), "each once, in the order of the first"
    assert [one for one in kept if not named(one)] == [one for one in sends if not named(one)]
    last = {(one.message.headers[Header.MESSAGE_ID], one.destination): one for one in sends if named(one)}
    assert all(
        one is last[one.message.headers[Header.MESSAGE_ID], one.destination] for one in kept if named(one)
    )
    assert list(deduplicate(kept)) == kept


@patiently
@given(any_sends)
def test_grouping_loses_nothing(sends: list[Send]) -> None:
    groups = by_destination(sends)

    assert sum(len(messages) for messages in groups.values()) == len(sends)
    for address, messages in groups.items():
        assert messages == [one.message for one in sends if one.destination == address]
