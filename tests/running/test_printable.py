"""Text from elsewhere on its way to logs, terminals and errors: it controls nothing, forges nothing, and is capped."""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rowbus
from rowbus.cli.output import complain, say, show_json, show_table, show_text
from rowbus.errors import MessageSerializationError, RowbusError, Unrecoverable
from rowbus.errors.strangers import (
    LONGEST_TEXT,
    LONGEST_TRACEBACK,
    LONGEST_VALUE,
    printable,
    printable_lines,
    shortened,
    traceback_of,
)
from rowbus.messages.message_types import serialize
from rowbus.running import loggers
from rowbus.running.loggers import EscapingFormatter
from tests.fixtures.every import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOSTILE = [
    "a\n2026-01-01 00:00:00 ERROR [1] rowbus.endpoint: forged",
    "\x1b]0;title\x07\x1b[2J",
    "a\rb",
    "\x00\x07\x08\x7f",
    "\x80\x85\x9b31m\x9f",
    "\u202a\u202b\u202c\u202d\u202e",
    "\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "\u2028\u2029",
    "\ud800\udfff",
]
hostile_text = st.text() | st.text(st.sampled_from("".join(HOSTILE))) | st.sampled_from(HOSTILE)


class Sink:
    """Somebody else's handler, with the formatter that `logging` gives to all."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)

    def taken(self) -> str:
        text = self.stream.getvalue()
        self.stream.truncate(0)
        self.stream.seek(0)
        return text


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    sink = Sink()
    logger = logging.getLogger("rowbus.endpoint")
    logger.addHandler(sink.handler)
    yield sink
    logger.removeHandler(sink.handler)


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


# ----------------------------------------------------------------------------------------------------- the function


@every("text", HOSTILE, ids=ascii)
def test_no_control_of_any_kind_passes(text: str) -> None:
    assert printable(text).isprintable()
    assert printable_lines(text).replace("\n", "").isprintable()


def test_what_is_printable_stays_as_it_is() -> None:
    assert printable("zażółć gęślą jaźń, 注文 🎉") == "zażółć gęślą jaźń, 注文 🎉"


@given(hostile_text, st.integers(0, 100))
def test_every_text_becomes_one_line_within_its_limit(text: str, limit: int) -> None:
    assert printable(text).isprintable()
    capped = printable(text, limit)
    assert capped.isprintable()
    assert len(capped) <= limit


@given(st.text(), st.integers(40, 200))
def test_what_is_too_long_keeps_its_beginning_and_its_end(text: str, limit: int) -> None:
    short = shortened(text, limit)

    assert len(short) <= limit
    assert short == text or (text.startswith(short.split("…")[0]) and text.endswith(short[-1]))


# -------------------------------------------------------------------------------------------------------------- logs


@given(hostile_text)
def test_a_logs_line_is_one_line_whatever_a_message_holds(sink: Sink, text: str) -> None:
    logger = logging.getLogger("rowbus.endpoint")
    error = ValueError(text)
    sink.taken()
    logger.warning("Message %s (%r) of %s failed: %r", text, text, [text], error)
    logger.warning("%(id)s", {"id": text})
    logger.warning(text)

    lines = sink.taken().split("\n")

    assert len(lines) == 4
    assert lines.pop() == ""
    assert all(line.isprintable() for line in lines)


def test_a_logs_line_is_capped_however_long_a_name_is(sink: Sink) -> None:
    sink.taken()
    logging.getLogger("rowbus.endpoint").warning("Message %s failed", "x" * 10_000_000)

    assert len(sink.taken()) < LONGEST_VALUE + 100


def test_numbers_are_formatted_as_numbers(sink: Sink) -> None:
    sink.taken()
    logging.getLogger("rowbus.endpoint").warning("%d of %.1f, %g, %s", 1, 2.25, 3, None)

    assert sink.taken() == "1 of 2.2, 3, None\n"


def test_an_exception_without_a_text_is_logged_all_the_same(sink: Sink) -> None:
    logging.getLogger("rowbus.endpoint").warning(
        "Failed: %s", UnspeakableError(), exc_info=UnspeakableError()
    )

    assert "Failed: (a UnspeakableError whose text cannot be had)" in sink.taken()


@given(hostile_text)
def test_a_traceback_cannot_be_forged_by_what_an_exception_says(sink: Sink, text: str) -> None:
    sink.taken()
    logging.getLogger("rowbus.endpoint").error("Failed", exc_info=_chained(text))

    said = sink.taken()
    kinds = [
        line for line in said.split("\n") if line and not line.startswith((" ", "Traceback", "During", "The"))
    ]
    assert said.replace("\n", "").isprintable()
    assert [kind.partition(":")[0] for kind in kinds] == [
        "Failed",
        "ValueError",
        "KeyError",
        "ExceptionGroup",
    ]


def _chained(text: str) -> Exception:
    try:
        _fail_while_failing(text)
    except KeyError as error:
        group = ExceptionGroup(text, [OSError(text)])
        group.__cause__ = error
        return group
    raise AssertionError


def _fail_while_failing(text: str) -> None:
    try:
        int(f"no number {text}")
    except ValueError:
        dict[str, str]()[text]


def test_a_traceback_is_capped(sink: Sink) -> None:
    error: Exception = ValueError("x" * 100_000)
    for _ in range(50):
        following = ValueError("x" * 100_000)
        following.__cause__ = error
        error = following
    assert len(traceback_of(error)) <= LONGEST_TRACEBACK


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert traceback_of(first).count("ValueError") == 2


def test_the_exception_itself_stays_in_the_record(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("a\nb")
    logging.getLogger("rowbus.endpoint").error("Failed", exc_info=error)

    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error


def test_every_logger_of_ours_escapes() -> None:
    sources = Path(rowbus.__file__).parent.rglob("*.py")
    asked = {
        name for file in sources for name in re.findall(r'getLogger\("(rowbus[^"]*)"\)', file.read_text())
    }

    assert asked <= set(loggers.NAMES)
    for name in loggers.NAMES:
        assert any(isinstance(one, loggers.Escaping) for one in logging.getLogger(name).filters)


@given(hostile_text)
def test_the_command_lines_log_escapes_other_libraries_lines_too(text: str) -> None:
    formatter = EscapingFormatter("%(message)s")
    error = ValueError(text)
    record = logging.LogRecord(
        "asyncio", logging.ERROR, __file__, 1, "%s", (text,), (ValueError, error, None)
    )
    first, *traceback = formatter.format(record).split("\n")

    assert first == printable(text)
    assert all(line.isprintable() for line in traceback)
    assert len(traceback) == 1


def test_the_command_lines_traceback_is_brief_unless_all_of_it_is_wanted() -> None:
    def record() -> logging.LogRecord:
        try:
            _as_a_handler(
                lambda: _as_a_handler(lambda: _as_a_handler(lambda: serialize({"a": object()}, types=("A",))))
            )
        except MessageSerializationError as error:
            given = (type(error), error, error.__traceback__)
            return logging.LogRecord("rowbus", logging.ERROR, __file__, 1, "Failed:", (), given)
        raise AssertionError

    brief = EscapingFormatter("%(message)s").format(record()).split("\n")
    full = EscapingFormatter("%(message)s", is_wanted=True).format(record())

    assert len(brief) <= 8
    assert sum(line.startswith(f'  File "{__file__}"') for line in brief) == 2
    assert "src/rowbus" not in "".join(brief)
    assert any(line.startswith("because of TypeError: ") for line in brief)
    assert brief[-1].endswith("-v shows them)")
    assert full.count("Traceback (most recent call last):") > 1


def _as_a_handler(work: Callable[[], object]) -> object:
    return work()


# ------------------------------------------------------------------------------------------------------------ errors


@given(hostile_text)
def test_an_errors_text_is_one_line_and_its_facts_are_as_they_came(text: str) -> None:
    error = RowbusError(f"Failed to send to {text}: create it.", queue=text)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here

    assert str(error).isprintable()
    assert again.queue == text
    assert again.args == error.args
    assert str(again) == str(error)


def test_an_errors_text_is_capped_and_keeps_its_advice() -> None:
    text = str(Unrecoverable("x" * 1_000_000 + ": create it."))

    assert len(text) <= LONGEST_TEXT
    assert text.endswith(": create it.")


# --------------------------------------------------------------------------------------------------------- commands


def printed(show: Callable[..., None], *arguments: object) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        show(*arguments)
    return out.getvalue()


@given(hostile_text)
def test_commands_print_nothing_that_controls_a_terminal(text: str) -> None:
    assert printed(say, f"Sent {text}.").removesuffix("\n").isprintable()
    assert printed(complain, text).removesuffix("\n").isprintable()
    assert printed(show_text, text).replace("\n", "").replace("\t", "").isprintable()
    assert printed(show_json, {text: [text]}).replace("\n", "").isprintable()


@given(hostile_text)
def test_json_is_read_by_programs_as_it_was(text: str) -> None:
    written = printed(show_json, {"id": text})

    assert written.count("\n") == 3
    assert json.loads(written)["id"].encode("utf-16", "surrogatepass") == text.encode(
        "utf-16", "surrogatepass"
    )


@settings(deadline=None)  # the first table imports rich
@given(hostile_text)
def test_a_cell_is_one_line_that_forges_no_row(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "20000")
        lines = printed(show_table, ("id", "state"), [(text, "waits")]).removesuffix("\n").split("\n")

    assert len(lines) == 2
    assert lines[1].isprintable()


def test_a_cell_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20000")

    assert len(printed(show_table, ("id",), [("x" * 1_000_000,)]).split()[-1]) < LONGEST_VALUE
