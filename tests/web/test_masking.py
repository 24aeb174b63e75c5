"""Bodies with things that nobody is to see."""

from __future__ import annotations

import json

import pytest

from rowbus.errors import ConfigurationError
from rowbus.web.contents import MASK, NOT_JSON, mask
from tests.fixtures.every import every

BODY = json.dumps(
    {
        "card": {"number": "4111", "cvc": {"code": 1}},
        "lines": [{"sku": "a", "price": 1}, {"sku": "b", "price": 2}],
        "iban": "DE1",
        "who": {"iban": "DE2", "more": [{"iban": ["DE3"]}]},
        "a.b": 5,
    }
)


@every(
    "path, hidden, kept",
    [
        ("$.card.*", {"4111", "code"}, {"DE1", "number"}),
        ("$.card", {"4111", "number"}, {"DE1"}),
        ("$..iban", {"DE1", "DE2", "DE3"}, {"4111", "iban"}),
        ("$.lines[*].sku", {'"a"', '"b"'}, {'"price": 1'}),
        ("$.lines[1].sku", {'"b"'}, {'"a"'}),
        ("$['a.b']", {"5"}, {"DE1"}),
        ("$", {"4111", "card"}, set()),
        ("$.missing.path", set(), {"4111", "DE3"}),
    ],
)
def test_what_a_path_leads_to_is_hidden(path: str, hidden: set[str], kept: set[str]) -> None:
    shown = mask(BODY, [path])

    assert not {text for text in hidden if text in shown}
    assert all(text in shown for text in kept)
    json.loads(shown)


def test_paths_add_up_and_none_changes_nothing() -> None:
    assert mask(BODY, []) == BODY
    assert mask("not json", []) == "not json"
    assert json.loads(mask(BODY, ["$.iban", "$.card.number"]))["card"]["number"] == MASK


@every("body", ["<xml>4111</xml>", '{"card": ', "[" * 100_000])
def test_what_is_not_json_is_hidden_whole(body: str) -> None:
    assert mask(body, ["$.card"]) == NOT_JSON


@every("path", ["card", "$card", "$.", "$..", "$.a b", "$[x]", "$.a[", "$[?(@.x)]"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="is no path"):
        mask("{}", [path])


def test_what_is_nested_too_deep_to_be_masked_is_not_shown() -> None:
    body = '{"a": ' * 400 + '"4111"' + "}" * 400
    assert mask(body, ["$..card"]) == NOT_JSON
