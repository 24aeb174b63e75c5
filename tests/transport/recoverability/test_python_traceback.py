"""Python's tracebacks: what the copy in the error queue has is what Python prints, also of the second failure."""

from __future__ import annotations

import traceback
import tracemalloc
from typing import TYPE_CHECKING

from rowbus.transport.recoverability.python_traceback import MOST_KEPT, python_traceback
from tests.fixtures.every import every

if TYPE_CHECKING:
    from collections.abc import Callable


class OrderError(Exception):
    """A user's error."""


def refuse(depth: int = 0) -> None:
    if depth:
        refuse(depth - 1)
    raise OrderError("no tent left\nand no stove")


def refuse_with_notes() -> None:
    error = OrderError("no tent left")
    error.add_note("for order 7")
    raise error


def refuse_for_a_reason() -> None:
    try:
        refuse()
    except OrderError as error:
        raise ValueError("cannot price it") from error


def refuse_while_refusing() -> None:
    try:
        refuse()
    except OrderError:
        refuse_with_notes()


def refuse_without_context() -> None:
    try:
        refuse()
    except OrderError:
        raise ValueError from None


def refuse_several() -> None:
    raise ExceptionGroup("several", [OrderError("one"), ValueError("two")])


def refuse_often() -> None:
    refuse(20)


def refuse_to_compile() -> None:
    compile("def f(:\n  pass", "orders.py", "exec")


def caught(function: Callable[[], object]) -> Exception:
    try:
        function()
    except Exception as error:  # noqa: BLE001 - each case raises another
        return error
    raise AssertionError("nothing was raised")


@every(
    "function",
    [
        refuse,
        refuse_with_notes,
        refuse_for_a_reason,
        refuse_while_refusing,
        refuse_without_context,
        refuse_several,
        refuse_often,
        refuse_to_compile,
    ],
)
def test_a_traceback_is_what_python_prints_each_time(function: Callable[[], object]) -> None:
    for _ in range(2):
        error = caught(function)

        assert python_traceback(error) == "".join(traceback.format_exception(error))


def test_an_error_that_was_never_raised_has_its_text() -> None:
    assert python_traceback(OrderError("no")) == f"{__name__}.OrderError: no\n"


def test_frames_of_much_code_are_not_mixed_up() -> None:
    """Code that is gone may leave its place in memory to other code, and texts are not kept for ever."""
    for number in range(MOST_KEPT + 10):
        scope: dict[str, Callable[[], object]] = {}
        exec(  # noqa: S102 - code of this test
            compile(f"def fail_{number}():\n    raise KeyError({number})", f"made {number}", "exec"), scope
        )
        error = caught(scope.pop(f"fail_{number}"))

        assert f'File "made {number}", line 2, in fail_{number}' in python_traceback(error)


def test_long_lines_are_not_kept() -> None:
    scope: dict[str, Callable[[], object]] = {}
    name = "x" * 100_000
    exec(compile(f"def {name}():\n    raise KeyError(1)", "made", "exec"), scope)  # noqa: S102 - code of this test
    error = caught(scope.pop(name))
    tracemalloc.start()
    for _ in range(20):
        assert name in python_traceback(error)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used < len(name)
