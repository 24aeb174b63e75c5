"""The types of settings and names of hosts, checked when settings are made; and spans of time as people write them."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from types import UnionType

    from _typeshed import DataclassInstance


_PLAIN: Final[dict[str, type]] = {
    "bool": bool,
    "int": int,
    "str": str,
    "timedelta": timedelta,
    "None": type(None),
}

_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")

LONGEST_NAME: Final = 450
"""Characters that ServiceControl stores of a host's or an endpoint's name, or a content type."""


def check_types(settings: DataclassInstance) -> None:
    """Raise ConfigurationError for a setting of another type than its own: text where a number belongs, above all.

    Looks at settings of plain types only, and not at what is made of them.
    """
    for one in fields(settings):
        if not one.init:
            continue
        names = str(one.type).split(" | ")
        given = getattr(settings, one.name)
        if not _fits(given, names) or (isinstance(given, bool) and "int" in names and "bool" not in names):
            raise ConfigurationError(f"{one.name} is {given!r}; give {_meant(one.name, names, given)}.")


def require_type(name: str, given: object, kinds: type | UnionType | tuple[type, ...], meant: str) -> None:
    """Raise ConfigurationError for an argument of another type than it must have; `meant` says what to give."""
    if not isinstance(given, kinds):
        raise ConfigurationError(f"{name} is {given!r}; give {meant}.")


def _fits(given: object, names: list[str]) -> bool:
    """Say whether a value is of a type of one of these names, or a text that one names."""
    for name in names:
        kind = _PLAIN.get(name, object)
        if name == f"Literal[{given!r}]" or (isinstance(given, kind) and not name.startswith("Literal[")):
            return True
    return False


def _meant(name: str, types: list[str], given: object) -> str:
    """Say what a setting takes."""
    if "timedelta" not in types:
        return " or ".join(map(_called, types))
    seconds = given if isinstance(given, (int, float)) else 10
    return f"a datetime.timedelta, as in {name}=timedelta(seconds={seconds})"


def _called(name: str) -> str:
    if name.startswith("Literal["):
        return name.removeprefix("Literal[").removesuffix("]")
    return "an int" if name == "int" else f"a {name}" if name != "None" else name


def time_span(given: str | timedelta) -> timedelta:
    """Return a span that is given as one, or as text; raises ConfigurationError."""
    if isinstance(given, timedelta):
        return given
    match = _SPAN.fullmatch(str(given).strip())
    if match is None:
        raise ConfigurationError(f"{given!r} is not a span of time such as 500ms, 30s, 5m, 2h or 1d.")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise ConfigurationError(f"{given!r} is longer than can be counted.") from None


def check_host_name(setting: str, name: str | None) -> None:
    """Raise ConfigurationError for a name that would keep ServiceControl from importing what the host sends."""
    if name is not None and not (name.strip() and name.isprintable() and len(name) <= LONGEST_NAME):
        raise ConfigurationError(
            f"{setting} is {name[:50]!r}; give a name of at most {LONGEST_NAME} printable characters, or None for the "
            "machine's."
        )
