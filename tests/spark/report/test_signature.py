"""Failures are told apart by what happened, not by the numbers, ids and names of the one occurrence."""

from __future__ import annotations

import time
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.spark.pipelines.report.facts import (
    LONGEST_PATTERN,
    MOST_FRAMES,
    frames,
    pattern,
    signature,
)
from tests.fixtures.every import every

SAME = [
    ("Order 42 not found", "Order 1007 not found"),
    ("Customer 'alice' has no card", "Customer 'bob' has no card"),
    ("id 0191d0a0-1234-7abc-8def-001122334455", "id AB91D0A012347ABC8DEF001122334455"),
    ("<Order object at 0x7f00aa12>", "<Order object at 0x5581beef>"),
    ("took 3.5 s", "took 12,000 s"),
    ("Key (order_id)=(a b) already exists.", "Key (order_id)=(c) already exists."),
    ("commit 9f8e7d6c failed", "commit 0123456789abcdef0123456789abcdef01234567 failed"),
    ("first\n   second 1", "first second 2"),
]
DIFFERENT = [
    ('relation "orders" does not exist', 'relation "items" does not exist'),
    ("connection refused", "connection reset"),
    ("isn't there", "isn't here"),
]


@every("pair", SAME, ids=lambda pair: pair[0])
def test_what_differs_from_case_to_case_does_not_tell_failures_apart(pair: tuple[str, str]) -> None:
    assert pattern(pair[0]) == pattern(pair[1])


@every("pair", DIFFERENT, ids=lambda pair: pair[0])
def test_what_was_said_does(pair: tuple[str, str]) -> None:
    assert pattern(pair[0]) != pattern(pair[1])


def fail(depth: int, error: Exception) -> None:
    if depth:
        fail(depth - 1, error)
    else:
        raise error


def trace_of(depth: int, error: Exception) -> str:
    with pytest.raises(type(error)) as caught:
        fail(depth, error)
    return "".join(traceback.format_exception(caught.value))


def test_a_python_trace_is_the_functions_it_went_through_the_raising_one_first() -> None:
    found = frames(trace_of(0, ValueError("no")))

    assert found == ["report/test_signature.py fail", "report/test_signature.py trace_of"]


def test_recursion_counts_once() -> None:
    assert frames(trace_of(3, ValueError())) == frames(trace_of(90, ValueError()))


DOTNET = """System.InvalidOperationException: Order 42 is gone
 ---> System.Collections.Generic.KeyNotFoundException: 42
   at Shop.Sales.Orders.Find(Int32 id) in C:\\build\\7\\Orders.cs:line 31
   --- End of inner exception stack trace ---
   at Shop.Sales.PlaceOrderHandler.<Handle>d__{state}.MoveNext() in {folder}PlaceOrderHandler.cs:line {line}
--- End of stack trace from previous location ---
   at NServiceBus.InvokeHandlerTerminator.<>c.<Terminate>b__{state}_0(Object x)
"""


def test_a_dotnet_trace_is_read_without_what_the_compiler_and_the_build_add() -> None:
    one = DOTNET.format(state=3, folder="C:\\build\\7\\", line=42)
    other = DOTNET.format(state=12, folder="/src/", line=43)

    assert frames(one) == [
        "Shop.Sales.Orders.Find",
        "Shop.Sales.PlaceOrderHandler.Handle",
        "NServiceBus.InvokeHandlerTerminator.<>c.Terminate",
    ]
    assert signature("Order 42 is gone", one) == signature("Order 7 is gone", other)


def test_another_way_through_the_code_is_another_failure() -> None:
    one, other = signature("no", trace_of(0, ValueError())), signature("no", "  at Shop.Other()")

    assert one.pattern == other.pattern
    assert one.trace != other.trace


@given(st.text(), st.text())
def test_any_text_has_a_signature_and_the_pattern_of_a_pattern_is_itself(
    message: str, stack_trace: str
) -> None:
    found = signature(message, stack_trace)

    assert len(found.pattern) <= LONGEST_PATTERN
    assert signature(message, stack_trace) == found


@every(
    "text",
    [
        "'" * 10**6,
        "a1" * 10**6,
        "0x" * 10**6,
        " " * 10**6,
        '  File "' * 10**5,
        "   at a" * 10**5,
        ")=(" * 10**5,
        "<a>d__" * 10**5,
    ],
    ids=lambda text: text[:6],
)
def test_hostile_text_takes_no_longer_than_other_text(text: str) -> None:
    begun = time.process_time()
    found = signature(text, text)

    assert time.process_time() - begun < 1
    assert len(frames(text)) <= MOST_FRAMES
    assert len(found.pattern) <= LONGEST_PATTERN


def test_no_message_and_no_trace_are_a_signature_too() -> None:
    assert signature(None, None) == ("", "", "")
