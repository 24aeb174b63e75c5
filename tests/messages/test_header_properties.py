"""Properties of every address, header, time and time span, searched for counter-examples by hypothesis."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rowbus.errors import InvalidAddressError, InvalidTimestampError, MalformedHeadersError
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import (
    decode_headers,
    encode_copied_headers,
    encode_headers,
    parse_enclosed_types,
)
from rowbus.messages.timestamps import (
    format_time_span,
    format_timestamp,
    is_well_formed_timestamp,
    parse_timestamp,
)

# A busy machine is not a fault.
patiently = settings(deadline=None)

characters = st.text(st.characters(exclude_categories=["Cs"]))
any_text = st.text(st.characters())  # halves of surrogate pairs included
names = st.text(
    st.one_of(st.sampled_from('".ab \\/['), st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)
table_names = names.filter(bool)
SPAN = re.compile(r"(-?)(?:(\d+)\.)?(\d\d):(\d\d):(\d\d)(?:\.(\d{7}))?", re.ASCII)  # .NET's constant format
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
spans = st.integers(-(2**63) // 10 + 1, 2**63 // 10).map(lambda us: timedelta(microseconds=us))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=8,
)
"""JSON of every shape, NaN and half surrogate pairs included."""

json_fragments = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ",", ":", '"', "\\", "\\u", "\\ud83d", "d83d", "null", "true", "NaN", "-", "1e9"]
    )
    | any_text
).map("".join)
"""Text that is nearly JSON."""


@patiently
@given(table_names, table_names)
@example('"', ".")
@example('""', '"."')
def test_every_address_survives_its_canonical_form(schema: str, table: str) -> None:
    address = QueueAddress(schema, table)

    assert QueueAddress.parse(address.canonical, "elsewhere") == address
    assert QueueAddress.from_user(address.canonical, "elsewhere") == address


@patiently
@given(st.one_of(names, any_text))
def test_any_text_is_an_address_or_an_address_error_and_reads_the_same_again(text: str) -> None:
    try:
        address = QueueAddress.parse(text)
    except InvalidAddressError:
        return
    assert QueueAddress.parse(str(address)) == address


@patiently
@given(names)
def test_a_person_is_read_as_the_wire_is_or_refused(text: str) -> None:
    try:
        address = QueueAddress.from_user(text, "app")
    except InvalidAddressError:
        return
    assert address == QueueAddress.parse(text, "app")


@patiently
@given(st.dictionaries(characters, characters))
def test_headers_of_any_characters_survive_the_wire_in_order(headers: dict[str, str]) -> None:
    text = encode_copied_headers(headers)

    assert text.isascii()
    assert list(decode_headers(text).items()) == list(headers.items())


@patiently
@given(st.dictionaries(characters, characters))
@example(dict.fromkeys(map(chr, range(128)), "".join(map(chr, range(128)))))
@example({chr(code): "" for code in range(128) if code != 127})
@example({"": '\\"/\b\f'})
def test_headers_are_written_as_the_standard_library_writes_them(headers: dict[str, str]) -> None:
    expected = json.dumps(headers, separators=(",", ":"))

    assert encode_copied_headers(headers) == expected
    assert encode_copied_headers(MappingProxyType(headers)) == expected


@patiently
@given(headers=st.dictionaries(characters, st.none() | characters), ascii_only=st.booleans())
def test_what_any_json_writer_writes_is_read_in_either_form_of_escapes(
    *, headers: dict[str, str | None], ascii_only: bool
) -> None:
    text = json.dumps(headers, ensure_ascii=ascii_only)

    assert decode_headers(text) == headers
    assert decode_headers(text.replace("/", "\\/")) == headers


@patiently
@given(st.one_of(any_text, json_fragments, json_values.map(json.dumps)))
@example('{"a":"b"}')
@example('{"":null}')
def test_any_text_at_all_is_headers_or_malformed_headers(text: str) -> None:
    try:
        headers = decode_headers(text)
    except MalformedHeadersError:
        return
    assert all(type(name) is str and type(value) in {str, type(None)} for name, value in headers.items())
    kept = {name: value for name, value in headers.items() if value is not None}
    assert decode_headers(encode_copied_headers(headers)) == kept


@patiently
@given(st.dictionaries(any_text, st.none() | any_text).map(json.dumps) | json_fragments)
@example('{"a":"b","a":"c"}')
@example('{"a":1,"a":"c"}')
@example('{"a":"\\ud83d\\ude00"}')
def test_headers_are_what_the_standard_library_reads_whichever_way_they_are_read(text: str) -> None:
    try:
        headers = decode_headers(text)
    except MalformedHeadersError:
        return
    expected = json.loads(text) if text else {}
    assert headers == expected
    assert list(headers) == list(expected)


@patiently
@given(st.one_of(any_text, st.text(st.sampled_from("AB.+`[],; \\_impl"))))
def test_any_text_is_a_list_of_types_without_blanks(value: str) -> None:
    types = parse_enclosed_types(value)

    assert all(name and name == name.strip() and ";" not in name for name in types)


@patiently
@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=offsets))  # noqa: DTZ001 - hypothesis adds the zone
def test_every_moment_survives_its_timestamp(moment: datetime) -> None:
    text = format_timestamp(moment)

    assert len(text) == 28
    assert is_well_formed_timestamp(text)
    assert parse_timestamp(text) == moment
    assert parse_timestamp(text).tzinfo is UTC
    assert encode_headers({"NServiceBus.TimeSent": text})


@patiently
@given(
    st.one_of(
        any_text,
        st.text(min_size=28, max_size=28),
        st.text("0123456789-: Z", min_size=28, max_size=28),
        st.from_regex(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}:\d{6} Z", fullmatch=True),
    )
)
def test_any_text_is_a_timestamp_or_a_timestamp_error(text: str) -> None:
    try:
        moment = parse_timestamp(text)
    except InvalidTimestampError:
        assert not is_well_formed_timestamp(text)
        return
    assert is_well_formed_timestamp(text) == (format_timestamp(moment) == text)


@patiently
@given(spans)
def test_every_time_span_survives_to_the_microsecond(span: timedelta) -> None:
    text = format_time_span(span)

    match = SPAN.fullmatch(text)
    assert match, text
    sign, days, hours, minutes, seconds, ticks = match.groups(default="0")
    size = timedelta(int(days), int(seconds), int(ticks) // 10, 0, int(minutes), int(hours))
    assert (-size if sign == "-" else size) == span
