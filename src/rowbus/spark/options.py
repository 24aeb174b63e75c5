"""Options of `format("rowbus")`: their declaration, parsing and error messages.

Spark passes every option as text, and its name as the user typed it or in lower case. So each module that takes
options declares a tuple of `Option`s, and `parse_options` converts the given texts. The site's page "Spark options" is
made from the same tuples.

Invariant: an undeclared option is an error, never ignored: a misspelt `failOnDataLoss` must not cost data.
"""

from __future__ import annotations

import difflib
import fnmatch
import json as _json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from rowbus.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Parser:
    """Converts the text of an option; raises ValueError for an invalid one."""

    kind: str
    """The permitted values, as the reference page and error messages name them."""
    read: Callable[[str], Any]
    """Returns the value, or raises ValueError."""


class RequiredOption:
    """The default of an option that must be given; there is one, `REQUIRED`."""

    def __repr__(self) -> str:
        """Give the name under which it is imported."""
        return "REQUIRED"


REQUIRED: Final = RequiredOption()


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its name, parser, default and meaning."""

    name: str
    parse: Parser
    default: object
    meaning: str


SPARKS_OWN: Final = frozenset({"checkpointlocation", "outputmode", "path", "paths", "queryname"})
"""Options that Spark adds by itself; modules that need one read it unparsed."""


def parse_options(given: Mapping[str, str], known: Sequence[Option], *, of: str) -> dict[str, Any]:
    """Return the values of all declared options by name, with defaults for those not given.

    `of` names the owner of the options ("the log source") in messages. Names match in any case. Raises
    `ConfigurationError` for an unknown option, with the nearest known one; for a missing required one; and for an
    invalid value.
    """
    texts = {name.lower(): text for name, text in given.items()}
    _refuse_unknown(given, known, of)
    return {option.name: _value(option, texts, of) for option in known}


def _refuse_unknown(given: Mapping[str, str], known: Sequence[Option], of: str) -> None:
    names = {option.name.lower(): option.name for option in known}
    for name in given:
        if name.lower() in names or name.lower() in SPARKS_OWN:
            continue
        near = difflib.get_close_matches(name.lower(), names, n=1)
        advice = f"did you mean {names[near[0]]!r}?" if near else f"there are {', '.join(names.values())}"
        raise ConfigurationError(f"Unknown option {name!r} of {of}: {advice}", option=name)


def _value(option: Option, texts: Mapping[str, str], of: str) -> object:
    text = texts.get(option.name.lower())
    if text is None:
        if option.default is REQUIRED:
            raise ConfigurationError(
                f"Option {option.name!r} of {of} is missing: {option.meaning}", option=option.name
            )
        return option.default
    try:
        return option.parse.read(text)
    except ValueError as error:
        raise ConfigurationError(
            f"Option {option.name!r} of {of}: {text!r} is not {option.parse.kind}", option=option.name
        ) from error


# ----------------------------------------------------------------------------------------------------------- parsers


def _read_text(given: str) -> str:
    if not given or "\0" in given:
        raise ValueError
    return given


text: Final = Parser("a text", _read_text)
"""Any text but the empty one, and what PostgreSQL cannot hold."""


BIGGEST: Final = 2**63 - 1  # what Spark's and PostgreSQL's whole numbers hold


def integer(minimum: int = 1) -> Parser:
    """Read a whole number that is not below the minimum; Spark may have written it as 1e5 or with underscores."""

    def read(given: str) -> int:
        number = int(given)
        if not minimum <= number <= BIGGEST:
            raise ValueError(given)
        return number

    return Parser(f"a whole number, at least {minimum}", read)


_BOOLEANS: Final = {"true": True, "false": False}


def _read_boolean(given: str) -> bool:
    if given.lower() not in _BOOLEANS:
        raise ValueError(given)
    return _BOOLEANS[given.lower()]


boolean: Final = Parser("true or false", _read_boolean)
"""`true` or `false`, in any case: what Spark makes of Python's."""


def choice(*words: str) -> Parser:
    """Read one of the given words, in any case."""
    by_lower = {word.lower(): word for word in words}

    def read(given: str) -> str:
        if given.lower() not in by_lower:
            raise ValueError(given)
        return by_lower[given.lower()]

    return Parser("one of " + ", ".join(words), read)


def _read_names(given: str) -> tuple[str, ...]:
    names = tuple(map(str.strip, given.split(",")))
    if not all(names):
        raise ValueError(given)
    return names


names: Final = Parser("names with commas between them", _read_names)
"""One name or several, as a tuple, in the order given."""

_UNITS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,10}(?:\.\d+)?)\s*([a-z]*)")


def _read_milliseconds(given: str) -> int:
    match = _DURATION.fullmatch(given.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise ValueError(given)
    return round(float(match[1]) * _UNITS[match[2]])


milliseconds: Final = Parser("a time such as 250 (milliseconds), 10s, 15m or 2h", _read_milliseconds)
"""A span of time, as a whole number of milliseconds."""

json: Final = Parser("JSON", _json.loads)
"""Any JSON value."""


# --------------------------------------------------------------------------------------------------------- reference


def described(options: Sequence[Option]) -> Iterator[tuple[str, str, str, str]]:
    """Return name, kind, default and meaning of each option, for the reference page."""
    for option in options:
        yield option.name, option.parse.kind, default_text(option.default), option.meaning


def default_text(default: object) -> str:
    """Return a default as a user would type it."""
    if default is REQUIRED:
        return "required"
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(str(one) for one in cast("tuple[object, ...]", default))
    return str(default)


def full_name(table: str) -> str:
    """Return schema and table joined by a dot, as events have it; a name without a schema is of `public`."""
    return table if "." in table or table == "*" else f"public.{table}"


def tables_named(names: Collection[str], pattern: str) -> list[str]:
    """Return the names of tables that a pattern such as `shop.*` or `orders` means."""
    return fnmatch.filter(names, full_name(pattern))
