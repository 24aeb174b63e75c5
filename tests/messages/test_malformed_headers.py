"""Headers that ServiceControl could not import are called by another name in copies, and nothing is lost."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from rowbus.messages.headers import Header
from rowbus.messages.malformed_headers import LONGEST_ID, MALFORMED_PREFIX, without_malformed
from rowbus.transport.recoverability.failure_headers import fault_headers
from tests.fixtures.every import every

TIME = "2026-04-29 21:56:55:590807 Z"
ID = "5c44e3f1-62a5-4b11-9e44-b40a00d1a2b3"
TIMES = [
    Header.TIME_SENT,
    Header.DELIVER_AT,
    Header.RETRIES_TIMESTAMP,
    Header.PROCESSING_STARTED,
    Header.PROCESSING_ENDED,
]
GUIDS = [
    Header.ORIGINATING_HOST_ID,
    Header.SAGA_ID,
    Header.ORIGINATING_SAGA_ID,
    Header.RETRY_UNIQUE_MESSAGE_ID,
]
IDS = [Header.CORRELATION_ID, Header.CONVERSATION_ID, Header.PREVIOUS_CONVERSATION_ID, Header.RELATED_TO]


@every("name", TIMES)
@every("value", ["", "nonsense", "2026-04-29T21:56:55.590807Z", "2026-02-30 21:56:55:590807 Z"])
def test_a_time_that_dotnet_cannot_read_is_moved(name: str, value: str) -> None:
    assert without_malformed({name: value}) == {f"{MALFORMED_PREFIX}{name}": value}


@every("name", IDS)
@every("value", ["", "a\0b", "a\nb", "x" * (LONGEST_ID + 1)])
def test_an_id_that_no_table_holds_is_moved(name: str, value: str) -> None:
    assert without_malformed({name: value}) == {f"{MALFORMED_PREFIX}{name}": value.replace("\0", r"\x00")}


SAGAS, CHANGES = Header.INVOKED_SAGAS, Header.SAGA_STATE_CHANGE


@every(
    "name, value",
    [
        (Header.ORIGINATING_ENDPOINT, "x" * 451),
        (Header.ORIGINATING_ENDPOINT, "a\nb"),
        (Header.ORIGINATING_MACHINE, "x" * 600),
        (Header.CONTENT_TYPE, "x" * 451),
        *[
            (SAGAS, text)
            for text in (
                "",
                "Shop.OrderSaga",
                f"Shop.OrderSaga:{ID[:-1]}",
                ID,
                f"Shop.OrderSaga:{ID};",
                f"A:B:{ID}",
            )
        ],
        *[(CHANGES, text) for text in ("", ID, f"{ID[:-1]}:New", f"{ID}:New;Updated")],
    ],
)
def test_what_would_stop_an_import_is_moved(name: str, value: str) -> None:
    assert without_malformed({name: value}) == {f"{MALFORMED_PREFIX}{name}": value}


@every("value", ["", "a\0b", "x\n", "x" * 201])
def test_a_message_id_that_no_table_holds_has_another_in_its_place_always_the_same(value: str) -> None:
    copied = without_malformed({Header.MESSAGE_ID: value})
    assert copied == without_malformed({Header.MESSAGE_ID: value})
    assert copied[f"{MALFORMED_PREFIX}{Header.MESSAGE_ID}"] == value.replace("\0", r"\x00")
    assert UUID(copied[Header.MESSAGE_ID] or "").version == 5


def test_nul_is_escaped_wherever_it_stands() -> None:
    assert without_malformed({"Shop.\0": "a\0b", "Shop": None}) == {r"Shop.\x00": r"a\x00b", "Shop": None}
    copy = fault_headers(ValueError("a\0b \ud800"), {"row": "\0"})
    assert not [name for name, value in copy.items() if "\0" in value]
    assert copy["NServiceBus.ExceptionInfo.Message"] == r"a\x00b \ud800"


@every("name", GUIDS)
@every("value", ["", " ", "web-1", ID[:-1], f"{{{ID}", ID.replace("-", "")[:-1]])
def test_an_id_that_is_no_guid_is_moved(name: str, value: str) -> None:
    assert without_malformed({name: value}) == {f"{MALFORMED_PREFIX}{name}": value}


def test_what_dotnet_reads_stays_where_it_is() -> None:
    headers = {
        **dict.fromkeys(TIMES, TIME),
        **dict.fromkeys(IDS, ID),
        Header.CORRELATION_ID: "order 42/ü",
        Header.CONVERSATION_ID: "x" * LONGEST_ID,
        **dict.fromkeys(GUIDS, ID.replace("-", "")),
        Header.CONTENT_TYPE: "application/json; charset=utf-8",
        Header.MESSAGE_ID: "x" * 200,
        Header.ORIGINATING_ENDPOINT: "ü" * 450,
        SAGAS: f"Shop.OrderSaga:{ID};Shop.Billing:{ID}",
        CHANGES: f"{ID}:New;{ID}:Completed",
        "Shop.TimeSent": "nonsense",
        Header.RELATED_TO: None,
    }

    assert without_malformed(headers) == headers
    for guid in (ID, ID.upper(), f"{{{ID}}}", f"({ID})"):
        assert without_malformed({Header.ORIGINATING_HOST_ID: guid}) == {Header.ORIGINATING_HOST_ID: guid}


@given(
    st.dictionaries(
        st.sampled_from([*TIMES, *IDS, Header.ORIGINATING_HOST_ID, "Shop"]),
        st.text(st.characters(exclude_characters="\0"), max_size=30),
    )
)
def test_nothing_is_lost(headers: dict[str, str | None]) -> None:
    copied = without_malformed(headers)

    assert {name.removeprefix(MALFORMED_PREFIX): value for name, value in copied.items()} == headers
    assert without_malformed(copied) == copied
