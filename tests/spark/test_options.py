"""Options: read in any case, and never ignored."""

from __future__ import annotations

from typing import Any

import pytest

from rowbus.errors import ConfigurationError
from rowbus.spark.options import (
    REQUIRED,
    Option,
    Parser,
    boolean,
    choice,
    default_text,
    described,
    integer,
    json,
    milliseconds,
    names,
    parse_options,
    text,
)
from tests.fixtures.every import every

KNOWN = (
    Option("consumer", text, REQUIRED, "who reads"),
    Option("startingOffsets", choice("committed", "earliest"), "committed", "where to begin"),
    Option("maxOffsetsPerTrigger", integer(1), None, "how many events at most"),
    Option("failOnDataLoss", boolean, True, "whether to stop"),
)


def parse(given: dict[str, str]) -> dict[str, Any]:
    return parse_options(given, KNOWN, of="the log source")


def test_what_is_not_given_has_its_default() -> None:
    assert parse({"consumer": "archive"}) == {
        "consumer": "archive",
        "startingOffsets": "committed",
        "maxOffsetsPerTrigger": None,
        "failOnDataLoss": True,
    }


def test_names_match_in_any_case() -> None:
    given = {"CONSUMER": "a", "maxoffsetspertrigger": "7", "failonDATALOSS": "FALSE"}

    found = parse(given)

    assert (found["consumer"], found["maxOffsetsPerTrigger"], found["failOnDataLoss"]) == ("a", 7, False)


def test_an_unknown_option_is_refused_and_the_nearest_one_named() -> None:
    with pytest.raises(
        ConfigurationError, match="'failOnDatLoss' of the log source: did you mean 'failOnDataLoss'"
    ):
        parse({"consumer": "a", "failOnDatLoss": "false"})


def test_an_unknown_option_like_no_other_is_answered_with_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match="there are consumer, startingOffsets, maxOffsetsPerTrigger"):
        parse({"consumer": "a", "zzz": "1"})


def test_a_required_option_that_is_missing_is_explained() -> None:
    with pytest.raises(ConfigurationError, match="'consumer' of the log source is missing: who reads"):
        parse({})


def test_what_spark_adds_by_itself_passes() -> None:
    parse({"consumer": "a", "checkpointLocation": "/x", "queryname": "q", "path": "/y"})


@every("given", ["0", "-1", "1.5", "many", "", "9223372036854775808"])
def test_a_value_that_cannot_be_read_is_refused_with_what_could_be(given: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a whole number, at least 1") as caught:
        parse({"consumer": "a", "maxOffsetsPerTrigger": given})

    assert caught.value.option == "maxOffsetsPerTrigger"  # type: ignore[attr-defined]  # a fact


@every(
    "parser, given, value",
    [
        (text, "a b", "a b"),
        (integer(0), "0", 0),
        (boolean, "True", True),
        (choice("earliest", "latest"), "LATEST", "latest"),
        (names, "orders, audit", ("orders", "audit")),
        (milliseconds, "250", 250),
        (milliseconds, "250ms", 250),
        (milliseconds, "1.5 s", 1500),
        (milliseconds, "15m", 900_000),
        (milliseconds, "2h", 7_200_000),
        (json, '{"orders": {"tick": 3}}', {"orders": {"tick": 3}}),
    ],
)
def test_values_are_read(parser: Parser, given: str, value: object) -> None:
    assert parser.read(given) == value


@every(
    "parser, given",
    [
        (text, ""),
        (boolean, "yes"),
        (choice("a"), "b"),
        (names, "a,,b"),
        (milliseconds, "soon"),
        (milliseconds, "5 weeks"),
        (json, "{"),
    ],
)
def test_nonsense_is_refused(parser: Parser, given: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - parse_options makes the message
        parser.read(given)


def test_the_reference_shows_defaults_as_one_would_type_them() -> None:
    assert [row[2] for row in described(KNOWN)] == ["required", "committed", "", "true"]
    assert default_text(("id", "headers")) == "id,headers"
