"""Types of settings: what a program gives is of the type that the setting says, or a sentence says so."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_PLAIN: Final = {"bool": bool, "int": int, "str": str, "timedelta": timedelta, "None": type(None)}


def check_types(settings: DataclassInstance) -> None:
    """Raise ConfigurationError for a setting of another type than its own: text where a number belongs, above all.

    Looks at settings of plain types only.
    """
    for one in fields(settings):
        names = str(one.type).split(" | ")
        given = getattr(settings, one.name)
        wanted = tuple([_PLAIN.get(name, object) for name in names])
        if not isinstance(given, wanted) or (
            isinstance(given, bool) and "int" in names and "bool" not in names
        ):
            raise ConfigurationError(f"{one.name} is {given!r}; give {_meant(one.name, names, given)}.")


def _meant(name: str, types: list[str], given: object) -> str:
    """Say what a setting takes."""
    if "timedelta" not in types:
        return " or ".join(
            "an int" if each == "int" else f"a {each}" if each != "None" else each for each in types
        )
    seconds = given if isinstance(given, (int, float)) else 10
    return f"a datetime.timedelta, as in {name}=timedelta(seconds={seconds})"
