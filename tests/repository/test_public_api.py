"""The public surface is what tests/approved/public_api.txt says, until somebody accepts another text.

A name, a parameter or a default that changes is a change for our users: decide that it is meant, note it in
CHANGELOG.md, and accept it with `ROWBUS_TEST_ACCEPT=1 make test ARGS='-k public_api'`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import os
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import ForwardRef

import rowbus.facade
from rowbus import errors, lake, servicecontrol, spark, testing
from rowbus.spark import pipelines
from tests.fixtures import places
from tests.fixtures.every import every

APPROVED = places.APPROVED / "public_api.txt"
MODULES = (rowbus, lake, servicecontrol, spark, pipelines, testing)


def described() -> str:
    lines: list[str] = []
    for module in MODULES:
        for name in sorted(module.__all__):
            lines += [*entry(f"{module.__name__}.{name}", getattr(module, name)), ""]
    return "\n".join(lines)


def entry(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, type):
        yield from declared(f"def {name}", value) if callable(value) else [f"{name} = {value!r}"]
        return
    bases = [
        "NamedTuple" if base is tuple else base.__name__ for base in value.__bases__ if base is not object
    ]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    for member in sorted(members(value)):
        yield from (f"    {line}" for line in member)


def declared(name: str, function: Callable[..., object]) -> list[str]:
    """Write a signature as it stands in the source, a parameter a line, so that a difference is a line too."""
    signature = inspect.signature(function)
    parameters = [one for one in signature.parameters.values() if one.name not in {"self", "cls", "_cls"}]
    shown = [parameter_of(one) for one in parameters]
    by_name = [number for number, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY]
    if by_name and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        shown.insert(by_name[0], "*")
    answer = (
        f" -> {note_of(signature.return_annotation)}"
        if signature.return_annotation is not signature.empty
        else ""
    )
    if len(shown) <= 1:
        return [f"{name}({''.join(shown)}){answer}"]
    return [f"{name}(", *(f"    {one}," for one in shown), f"){answer}"]


def parameter_of(parameter: inspect.Parameter) -> str:
    default: object = parameter.default
    written = str(default) if isinstance(default, enum.Enum) else repr(default)
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else stars
    given = "" if default is parameter.empty else f" = {written}"
    return f"{stars}{parameter.name}: {note_of(parameter.annotation)}{given}"


def note_of(annotation: object) -> str:
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else str(annotation)


def members(kind: type) -> Iterator[list[str]]:
    if issubclass(kind, enum.Enum):
        yield from ([f"{member.name} = {member.value!r}"] for member in kind)
    elif issubclass(kind, tuple):
        yield declared("__new__", kind.__new__)
    else:
        if "__init__" in vars(kind) and not is_protocol(kind):
            yield declared("__init__", kind.__init__)
        if not dataclasses.is_dataclass(kind):
            notes = inspect.get_annotations(kind).items()
            yield from ([f"{name}: {note}"] for name, note in notes if name[0] != "_" and note != "Final")
        yield from attributes(kind)


def is_protocol(kind: type) -> bool:
    """Say whether a class is a protocol, which nobody makes."""
    return getattr(kind, "_is_protocol", False)


def attributes(kind: type) -> Iterator[list[str]]:
    """Describe methods, properties and constants, also those of bases that are not public themselves."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("rowbus") or issubclass(base, errors.RowbusError):
            continue
        for name, value in vars(base).items():
            if name not in seen and (name[0] != "_" or name == "__call__"):
                seen.add(name)
                yield from attribute(name, value)


def attribute(name: str, value: object) -> Iterator[list[str]]:
    inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if isinstance(inner, FunctionType):
        yield declared(
            f"{'async ' if inspect.iscoroutinefunction(inspect.unwrap(inner)) else ''}def {name}", inner
        )
    elif isinstance(value, property) and value.fget is not None:
        yield [f"property {name} -> {inspect.signature(value.fget).return_annotation}"]
    elif isinstance(value, str):
        yield [f"{name} = {value!r}"]


def test_the_public_api_is_the_approved_one() -> None:
    text = described()
    if os.environ.get("ROWBUS_TEST_ACCEPT"):
        APPROVED.write_text(text, encoding="utf-8")

    assert text == APPROVED.read_text(encoding="utf-8"), __doc__


@every("module", MODULES, ids=lambda module: module.__name__)
def test_everything_that_is_exported_exists_once_and_is_documented(module: ModuleType) -> None:
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name).__doc__, f"{name} has no docstring"


def test_nothing_but_what_is_exported_is_public_in_the_facade() -> None:
    public = {
        name for name, value in vars(rowbus.facade).items() if name[0] != "_" and not inspect.ismodule(value)
    }

    assert public - {"annotations"} == set(rowbus.__all__)


def test_every_public_method_is_documented() -> None:
    undocumented = [
        f"{name}.{attribute}"
        for name in rowbus.__all__
        if isinstance(kind := getattr(rowbus, name), type)
        for attribute, value in vars(kind).items()
        if attribute[0] != "_" and (callable(value) or isinstance(value, property)) and not value.__doc__
    ]

    assert undocumented == []
