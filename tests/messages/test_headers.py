"""Headers: both .NET dialects are read, one strict dialect is written, everything else is refused by name."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import MappingProxyType
from typing import cast

import pytest

from rowbus.errors import InvalidHeaderError, MalformedHeadersError
from rowbus.messages.headers import (
    TIMESTAMP_HEADERS,
    Header,
    decode_headers,
    encode_copied_headers,
    encode_headers,
    parse_enclosed_types,
)
from tests.fixtures.every import every
from tests.fixtures.places import GOLDEN

FILES = sorted(GOLDEN.glob("*.json"))
TIMESTAMP = "2026-04-29 21:56:55:590807 Z"


@every("path", FILES, ids=lambda path: cast("Path", path).stem)
def test_rows_as_dotnet_writes_them_are_read(path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))

    headers = decode_headers(golden["headers_text"])

    assert headers == golden["expected_headers"]
    assert list(headers) == list(golden["expected_headers"])


@every("path", FILES, ids=lambda path: cast("Path", path).stem)
def test_what_dotnet_wrote_can_be_written_again_without_its_nulls(path: Path) -> None:
    headers = decode_headers(json.loads(path.read_text(encoding="utf-8"))["headers_text"])

    again = decode_headers(encode_headers(headers))

    assert again == {name: value for name, value in headers.items() if value is not None}


def test_the_golden_rows_are_found() -> None:
    assert len(FILES) >= 14


@every("text", [None, "", "{}", " { } ", "\n{}\t"])
def test_no_headers_are_no_headers(text: str | None) -> None:
    assert decode_headers(text) == {}


def test_nulls_are_kept_as_none() -> None:
    assert decode_headers('{"a":null,"b":"","c":"null"}') == {"a": None, "b": "", "c": "null"}


def test_nul_characters_are_legal_in_headers() -> None:
    assert decode_headers(encode_headers({"a": "\0"})) == {"a": "\0"}


@every("text", ['{"a":"\\ud83d\\ude80"}', '{"a":"\\uD83D\\uDE80"}', '{"a":"🚀"}'])
def test_characters_beyond_the_bmp_are_read_escaped_or_raw(text: str) -> None:
    assert decode_headers(text) == {"a": "🚀"}


@every(
    "text, reason",
    [
        (" ", "not JSON: Expecting value at character 1"),
        ("Not JSON", "not JSON: Expecting value at character 0"),
        ("<xml/>", "not JSON: Expecting value at character 0"),
        ("\ufeff{}", "not JSON: Expecting value at character 0"),
        ('{"a":"b"', "not JSON: Expecting ',' delimiter at character 8"),
        ('{"a":"b",}', "not JSON: "),
        ('  {"a":"b"', "not JSON: Expecting ',' delimiter at character 10"),
        ('{"a":"b', "not JSON: Unterminated string starting at character 5"),
        ('{"a":"\n"}', "not JSON: Invalid control character at character 6"),
        ('{"a":"\\x"}', "not JSON: Invalid \\escape"),
        ('{"a":"\\u12"}', "not JSON: Invalid \\uXXXX escape"),
        ("{'a':'b'}", "not JSON: "),
        ("{}{}", "not JSON: extra text at character 2"),
        ('{"a":"b"} x', "not JSON: extra text at character 9"),
        ("{}\u00a0", "not JSON: extra text at character 2"),
        ("null", "null instead of an object"),
        (" null ", "null instead of an object"),
        ("[]", "an array instead of an object"),
        ('[["a","b"]]', "an array instead of an object"),
        ('"text"', "a string instead of an object"),
        ("true", "a boolean instead of an object"),
        ("1", "a number instead of an object"),
        ("NaN", "a number instead of an object"),
        ('{"a":1}', "the value of 'a' is a number instead of a string"),
        ('{"a":-0.5e9}', "the value of 'a' is a number instead of a string"),
        ('{"a":Infinity}', "the value of 'a' is a number instead of a string"),
        ('{"a":true}', "the value of 'a' is a boolean instead of a string"),
        ('{"a":{}}', "the value of 'a' is an object instead of a string"),
        ('{"a":{"b":"c"}}', "the value of 'a' is an object instead of a string"),
        ('{"a":[]}', "the value of 'a' is an array instead of a string"),
        ('{"x":null,"y":"z","a":false}', "the value of 'a' is a boolean instead of a string"),
        ('{"a":"1","a":2}', "the value of 'a' is a number instead of a string"),
        ('{"a":"\\ud83d"}', "the header 'a' holds half of a surrogate pair"),
        ('{"a":"\\ude80\\ud83d"}', "the header 'a' holds half of a surrogate pair"),
        ('{"a":"\ud83d"}', "the header 'a' holds half of a surrogate pair"),
        ('{"x":null,"a":"\\udfff"}', "the header 'a' holds half of a surrogate pair"),
        ('{"\\udfff":"x"}', "the header '\\udfff' holds half of a surrogate pair"),
        ('{"\\ud83d":null}', "the header '\\ud83d' holds half of a surrogate pair"),
        ('{"a":"\\ud83d","b":"\\ude80"}', "the header 'a' holds half of a surrogate pair"),
    ],
)
def test_malformed_header_text_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(MalformedHeadersError) as caught:
        decode_headers(text)

    assert caught.value.text == text
    assert caught.value.reason.startswith(reason)
    assert caught.value.reason in str(caught.value)
    assert isinstance(caught.value, ValueError)


@every(
    "text, headers",
    [
        ('{"a":"1","b":"2","a":"3"}', {"a": "3", "b": "2"}),
        ('{"a":"1","a":null}', {"a": None}),
        ('{"":"1","":"2"}', {"": "2"}),
    ],
)
def test_of_a_repeated_header_the_last_counts_as_in_net(text: str, headers: dict[str, str | None]) -> None:
    assert decode_headers(text) == headers


@every(
    "text",
    [
        pytest.param("[" * 1_000_000, id="open arrays"),
        pytest.param('{"a":' * 1_000_000, id="open objects"),
        pytest.param('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", id="nested arrays"),
        pytest.param('{"a":' + "9" * 5_000_000 + "}", id="a huge integer"),
        pytest.param('{"a":1e' + "9" * 5_000_000 + "}", id="a huge exponent"),
        pytest.param('{"a":"' + "\\ud800" * 500_000 + '"}', id="lone surrogates"),
        pytest.param("{" + '"a":"b",' * 200_000 + '"a":1}', id="a name repeated"),
        pytest.param(" " * 5_000_000, id="space"),
        pytest.param('{"a":"' + "\\" * 2_000_001, id="backslashes"),
    ],
)
@pytest.mark.timeout(10)
def test_hostile_header_text_is_refused_in_linear_time(text: str) -> None:
    with pytest.raises(MalformedHeadersError) as caught:
        decode_headers(text)

    assert len(str(caught.value)) < 300


def test_the_error_pickles_with_its_facts() -> None:
    with pytest.raises(MalformedHeadersError) as caught:
        decode_headers('{"a":"\ud83d"}')

    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes

    assert isinstance(copy, MalformedHeadersError)
    assert (copy.text, copy.reason, str(copy)) == (caught.value.text, caught.value.reason, str(caught.value))


def test_headers_are_written_compact_in_ascii_in_the_order_given() -> None:
    text = encode_headers({"b": 'ż "/\\ 🚀\n', "a": "", "NServiceBus.TimeSent": TIMESTAMP})

    assert text == (
        r'{"b":"\u017c \"/\\ \ud83d\ude80\n","a":"","NServiceBus.TimeSent":"2026-04-29 21:56:55:590807 Z"}'
    )


def test_any_mapping_can_be_written() -> None:
    assert encode_headers(MappingProxyType({"a": "b"})) == '{"a":"b"}'
    assert encode_headers({}) == "{}"


def test_headers_that_are_none_are_left_out() -> None:
    assert encode_headers({"a": None, "b": "c", "NServiceBus.TimeSent": None}) == '{"b":"c"}'


@every("name", TIMESTAMP_HEADERS)
@every("value", ["", TIMESTAMP[:-1], "2026-04-29T21:56:55.590807Z", "2026-02-30 21:56:55:590807 Z"])
def test_a_timestamp_dotnet_could_not_parse_is_not_sent(name: str, value: str) -> None:
    with pytest.raises(InvalidHeaderError) as caught:
        encode_headers({"a": "b", name: value})

    assert caught.value.header == name
    assert "yyyy-MM-dd HH:mm:ss:ffffff Z" in caught.value.reason


def test_the_timestamp_headers_are_the_four_that_break_dotnet() -> None:
    assert set(TIMESTAMP_HEADERS) == {
        "NServiceBus.TimeSent",
        "NServiceBus.DeliverAt",
        "NServiceBus.TimeOfFailure",
        "NServiceBus.Retries.Timestamp",
    }


def test_headers_that_came_with_a_message_are_copied_whatever_their_timestamps() -> None:
    text = encode_copied_headers({Header.TIME_SENT: "yesterday", "a": None})

    assert decode_headers(text) == {Header.TIME_SENT: "yesterday"}


@every("write", [encode_headers, encode_copied_headers])
@every(
    "headers, header, reason",
    [
        ({"a": "b", "c": 1}, "c", "its value is int"),
        ({"a": True}, "a", "its value is bool"),
        ({"a": b"b"}, "a", "its value is bytes"),
        ({"a": {"b": "c"}}, "a", "its value is dict"),
        ({1: "a"}, "1", "its name is not a string"),
        ({None: "a"}, "None", "its name is not a string"),
        ({"a": "b", "c": "\ud83d"}, "c", "surrogate"),
        ({"a": "\ude80\ud83d"}, "a", "surrogate"),
        ({"a\udfff": "b"}, "a\udfff", "surrogate"),
    ],
)
def test_what_no_reader_could_read_is_refused_by_name(
    write: object, headers: dict[str, str | None], header: str, reason: str
) -> None:
    assert callable(write)
    with pytest.raises(InvalidHeaderError) as caught:
        write(headers)

    assert caught.value.header == header
    assert reason in caught.value.reason


def test_a_timestamp_header_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidHeaderError, match="not a timestamp"):
        encode_headers({Header.TIME_SENT: cast("str", 20260429)})


def test_an_escaped_backslash_before_ud_is_not_taken_for_a_surrogate() -> None:
    assert decode_headers(encode_headers({"a": "\\ud83d"})) == {"a": "\\ud83d"}


@every(
    "value, types",
    [
        (None, ()),
        ("", ()),
        (" ; ;", ()),
        ("Shop.PlaceOrder", ("Shop.PlaceOrder",)),
        (" Shop.PlaceOrder ", ("Shop.PlaceOrder",)),
        (
            "Shop.PlaceOrder, Shop, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null",
            ("Shop.PlaceOrder",),
        ),
        ("Shop.OrderPlaced, Shop; Shop.IOrderEvent, Shop;", ("Shop.OrderPlaced", "Shop.IOrderEvent")),
        ("Shop.Order+Placed, Shop", ("Shop.Order+Placed",)),
        ("Foo`1[[Bar, Asm]], Asm", ("Foo`1[[Bar, Asm]]",)),
        ("Foo`2[[A`1[[B, X]], Y],[C, Z]], Asm", ("Foo`2[[A`1[[B, X]], Y],[C, Z]]",)),
        ("Foo[], Asm;Foo[,], Asm", ("Foo[]", "Foo[,]")),
        (r"Odd\,Name, Asm", (r"Odd\,Name",)),
        (r"Odd\[Name, Asm", (r"Odd\[Name",)),
        ("Shop.IOrderPlaced__impl, Proxies;Shop.IOrderPlaced, Shop", ("Shop.IOrderPlaced",)),
        ("Shop.IOrderPlaced__impl", ()),
        ("Foo[[Bar, Asm", ("Foo[[Bar, Asm",)),
    ],
)
def test_message_types_are_reduced_to_their_full_names(value: str | None, types: tuple[str, ...]) -> None:
    assert parse_enclosed_types(value) == types


def test_the_types_of_the_golden_event_are_read() -> None:
    path = next(path for path in FILES if path.stem == "polymorphic_event")
    headers = json.loads(path.read_text(encoding="utf-8"))["expected_headers"]

    assert parse_enclosed_types(headers[Header.ENCLOSED_MESSAGE_TYPES]) == (
        "Shop.Messages.Changed`1[[Shop.Order, Shop, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null]]",
        "Shop.Messages.Order+Placed",
        "Shop.Messages.IOrderEvent",
    )


def test_every_standard_header_in_the_golden_rows_has_a_constant() -> None:
    constants = [value for key, value in vars(Header).items() if key.isupper()]
    seen = {
        name for path in FILES for name in json.loads(path.read_text(encoding="utf-8"))["expected_headers"]
    }
    standard = {name for name in seen if not name.startswith(("Shop.", Header.EXCEPTION_DATA_PREFIX))}

    assert len(constants) == len(set(constants))
    assert standard <= set(constants)
