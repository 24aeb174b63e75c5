"""Stack traces in .NET's form: what is in them, and the groups that ServiceControl makes of them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.errors import InvalidAddressError
from rowbus.errors.strangers import data_of, inner_exception, type_name
from rowbus.messages.address import QueueAddress
from rowbus.transport.recoverability.failure_headers import (
    LONGEST_FRAMES,
    LONGEST_MESSAGE,
    MOST_FRAMES,
    python_traceback,
    stack_trace,
)
from tests.fixtures.every import every
from tests.transport.recoverability.servicecontrol_groups import group_of

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED = json.loads((Path(__file__).parent / "servicecontrol_stack_traces.json").read_bytes())
HERE = __name__
patiently = settings(deadline=None, max_examples=60)


def price_of(text: str = "no tent left") -> None:
    raise KeyError(text)


def place_order(text: str = "cannot price the order") -> None:
    try:
        price_of()
    except KeyError as error:
        raise ValueError(text) from error


def forever(depth: int = 400) -> None:
    if depth == 0:
        price_of()
    forever(depth - 1)


async def placed() -> None:
    await asyncio.sleep(0)
    price_of()


async def in_a_task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(placed())


async def too_late() -> None:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()


def caught(function: Callable[..., Any], *arguments: object) -> BaseException:
    """Return what a function raises."""
    try:
        result = function(*arguments)
        if asyncio.iscoroutine(result):
            asyncio.run(result)
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError(function)


def group(error: BaseException) -> str:
    told = stack_trace(error)
    return group_of(type_name(error), told.message, told.text)


def calls(error: BaseException) -> list[str]:
    return re.findall(r"^   at (\S+)\(\)", stack_trace(error).text, re.MULTILINE)


@every("one", RECORDED)
def test_the_model_classifies_recorded_traces_as_servicecontrol_did(one: dict[str, str]) -> None:
    assert group_of(f"P_{one['case']}", one["message"], one["trace"]) == one["group_title"]


def test_a_trace_is_dotnets_innermost_first_with_the_file_and_without_source() -> None:
    line = price_of.__code__.co_firstlineno + 1

    told = stack_trace(caught(price_of))

    assert told.message == "'no tent left'"
    assert told.source == "tests"
    assert told.text.splitlines()[:2] == [
        "KeyError: 'no tent left'",
        f"   at {HERE}.price_of() in {__file__}:line {line}",
    ]
    assert told.text.splitlines()[2].startswith(f"   at {HERE}.caught() in /")
    assert "raise" not in told.text


def test_inner_exceptions_stand_as_dotnet_writes_them() -> None:
    lines = [line.partition(" in /")[0] for line in stack_trace(caught(place_order)).text.splitlines()]

    assert lines == [
        "ValueError: cannot price the order",
        " ---> KeyError: 'no tent left'",
        f"   at {HERE}.price_of()",
        f"   at {HERE}.place_order()",
        "   --- End of inner exception stack trace ---",
        f"   at {HERE}.place_order()",
        f"   at {HERE}.caught()",
    ]
    assert group(caught(place_order)) == f"ValueError: {HERE}.price_of()"


def test_an_exception_raised_from_none_has_no_inner_one() -> None:
    def hide() -> None:
        try:
            price_of()
        except KeyError:
            raise ValueError("hidden") from None

    assert inner_exception(caught(hide)) is None
    assert "--->" not in stack_trace(caught(hide)).text


def test_exceptions_inside_each_other_come_once() -> None:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one

    assert stack_trace(one).text.count("--->") == 1


def test_the_first_part_of_a_group_is_its_inner_exception() -> None:
    error = caught(in_a_task_group)

    assert type_name(inner_exception(error) or error) == "KeyError"
    assert group(error) == f"ExceptionGroup: {HERE}.price_of()"


def test_what_carries_calls_between_tasks_and_threads_is_left_out() -> None:
    assert group(caught(too_late)) == f"TimeoutError: {HERE}.too_late()"
    assert not [name for name in calls(caught(in_a_task_group)) if name.startswith("asyncio.")]


def test_a_line_of_ours_stands_only_where_there_is_no_other() -> None:
    def parse() -> None:
        QueueAddress.parse("")  # raises in our code

    assert isinstance(caught(parse), InvalidAddressError)
    assert group(caught(parse)).endswith("<locals>.parse()")
    assert not [name for name in calls(caught(parse)) if name.startswith("rowbus.")]
    ours = caught(parse)
    while ours.__traceback__ is not None and ours.__traceback__.tb_frame.f_globals["__name__"] == HERE:
        ours.__traceback__ = ours.__traceback__.tb_next  # as if no handler had been reached
    assert calls(ours)[0].startswith("rowbus.messages.")


def test_at_most_a_hundred_frames_those_nearest_to_the_failure() -> None:
    found = calls(caught(forever))

    assert len(found) == MOST_FRAMES == 100
    assert found[:2] == [f"{HERE}.price_of", f"{HERE}.forever"]
    assert group(caught(forever)) == f"KeyError: {HERE}.price_of()"


@every(
    "file, shown",
    [
        ("/srv/shop/sales.py", " in /srv/shop/sales.py:line 1"),
        ("/srv/my shop/sales.py", " in /srv/my shop/sales.py:line 1"),
        ("C:\\shop\\sales.py", " in C:\\shop\\sales.py:line 1"),
        ("sales.py", ""),
        ("<string>", ""),
        ("<frozen shop>", ""),
    ],
)
def test_a_file_is_named_only_by_an_absolute_path(file: str, shown: str) -> None:
    names: dict[str, Any] = {"__name__": "shop.sales"}
    exec(compile("def price_of(): raise KeyError('no')", file, "exec"), names)  # noqa: S102 - to name a file
    error = caught(names["price_of"])

    assert f"   at shop.sales.price_of(){shown}\n" in stack_trace(error).text
    assert group(error) == "KeyError: shop.sales.price_of()"


def test_code_without_a_module_is_a_frame_all_the_same() -> None:
    names: dict[str, Any] = {}
    exec("def price_of(): raise KeyError('no')", names)  # noqa: S102 - it has no __name__
    names.pop("__builtins__")

    assert group(caught(names["price_of"])).endswith(".price_of()")


@every("text", ["price_of", "e", " ", ".", "\n", "in /", "End of inner", f"{HERE}.price_of()"])
def test_a_message_that_occurs_in_a_frame_is_told_with_its_type(text: str) -> None:
    def fail() -> None:
        try:
            price_of()
        except KeyError as error:
            raise RuntimeError(text) from error

    error = caught(fail)
    told = stack_trace(error)

    assert told.message == f"RuntimeError: {text}"
    assert told.text.startswith(told.message)
    assert group(error) == f"RuntimeError: {HERE}.price_of()"


def test_any_other_message_is_told_as_it_is_also_where_the_inner_one_says_the_same() -> None:
    def fail() -> None:
        try:
            price_of()
        except KeyError as error:
            raise ValueError(str(error)) from error

    assert stack_trace(caught(fail)).message == "'no tent left'"


def test_a_message_that_looks_like_a_frame_makes_no_group() -> None:
    evil = "gone\n   at evil.frame()\n   at evil.other() in /evil.py:line 1"

    assert group(caught(place_order, evil)) == f"ValueError: {HERE}.price_of()"
    assert group(caught(place_order, evil + "x" * 20_000)) == f"ValueError: {HERE}.price_of()"


def test_nor_does_that_of_an_inner_exception() -> None:
    def fail() -> None:
        try:
            price_of("\n   at evil.frame()\n   at evil.other()")
        except KeyError as error:
            raise ValueError("no") from error

    assert group(caught(fail)) == f"ValueError: {HERE}.price_of()"


def test_message_and_trace_are_cut_alike() -> None:
    told = stack_trace(caught(place_order, "ż" * 20_000))

    assert LONGEST_MESSAGE == 16_384
    assert told.message == "ż" * 16_384
    assert told.text.startswith(f"ValueError: {told.message}\n ---> KeyError")


def test_an_exception_without_text_has_an_empty_message() -> None:
    told = stack_trace(caught(place_order, ""))

    assert told.message == ""
    assert told.text.startswith("ValueError\n ---> KeyError")


class OddError(Exception):
    """An error that cannot say what it is."""

    data = 42

    def __str__(self) -> str:
        raise RuntimeError("not even that")


def fail_oddly() -> None:
    raise OddError


def test_an_exception_that_cannot_say_anything_is_told_all_the_same() -> None:
    error = caught(fail_oddly)

    assert stack_trace(error).message == "(a OddError whose text cannot be had)"
    assert group(error).endswith("test_stack_traces.fail_oddly()")
    assert "OddError" in python_traceback(error)
    assert data_of(error) == {}


def test_an_exceptions_data_and_notes_are_told() -> None:
    error = ValueError("no")
    error.data = {"OrderId": 42, 5: "a number as key", "Odd": OddError()}  # type: ignore[attr-defined]
    error.add_note("while placing")
    error.add_note("for the third time")

    assert data_of(error) == {
        "OrderId": "42",
        "5": "a number as key",
        "Odd": "(a OddError whose text cannot be had)",
        "Notes": "while placing\nfor the third time",
    }


def test_long_names_leave_the_trace_short() -> None:
    names: dict[str, Any] = {"__name__": "m" * 5_000}
    exec(f"def {'f' * 5_000}(n):\n  if n: {'f' * 5_000}(n - 1)\n  raise KeyError", names)  # noqa: S102 - its names
    error = caught(names["f" * 5_000], min(200, sys.getrecursionlimit() // 2))

    assert len(stack_trace(error).text) < LONGEST_FRAMES + 1_000
    assert group(error).startswith("KeyError: mmm")


@patiently
@given(text=st.text(st.characters(), max_size=50))
def test_whatever_an_exception_says_its_group_is_its_function(text: str) -> None:
    assert group(caught(place_order, text)) == f"ValueError: {HERE}.price_of()"
