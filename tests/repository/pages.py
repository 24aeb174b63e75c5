"""Follows a Markdown page as its reader would, and compares what happens with what the page says.

What the words after the three backquotes mean:

* `python`: a part of the page's program, which is run where its last part stands. A first line `# name.py` makes the
  block a file of that name instead, `# name.py, continued` the next part of that file.
* `output`: what the page's program prints.
* `console`: commands after `$ ` (continued after `> `), each followed by what it prints, as on a terminal. With
  `exit=1` the last of them ends so. With `terminal=NAME` the one command is left running, and only the lines shown
  are awaited.
* `log terminal=NAME`: lines that come from a command left running; `^C` interrupts it, and it must end with code 0.
* `sql`: statements that are executed.
* anything else is for reading only.

In what is expected, `…` stands for any text within a line, and alone on a line for any number of lines.

Invariant: nothing is skipped silently: a block of these kinds is run, or the page fails.
"""

from __future__ import annotations

import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import psycopg
import pytest

from tests.fixtures import forked
from tests.fixtures.forked import Forked

PATIENCE = 60.0  # seconds until whatever is awaited counts as never coming
COMMAND_SECONDS = 300.0  # for a command to end; those that start Spark take their time on a busy machine
BASH = "/bin/bash"
_SHELL = re.compile(r"[|&;<>()$`\\*?\[\]{}~#!\n]")  # what a shell does more with than to split words
_FILE = re.compile(r"# ([\w./-]+\.py)(, continued)?$")
_FENCE = re.compile(r"( *)```(.*)")
_ANY_LINES = "…"


class Block(NamedTuple):
    """A fenced block: the words after its backquotes, its text, and the page's line on which that begins."""

    words: tuple[str, ...]
    text: str
    line: int

    @property
    def kind(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def options(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.words[1:])


def blocks(page: str) -> Iterator[Block]:
    """Give the fenced blocks of a page, in order; those in lists without their indentation."""
    words: tuple[str, ...] | None = None
    indent, lines = "", list[str]()
    for number, line in enumerate(page.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            lines.append(line.removeprefix(indent))
        elif words is None:
            indent, words, lines = fence[1], tuple(fence[2].split()), []
        else:
            yield Block(words, "".join(f"{text}\n" for text in lines), number - len(lines))
            indent, words = "", None
    assert words is None, "a block is not closed"


class Command(NamedTuple):
    """A command of a console block, and what it is said to print."""

    line: str
    output: str


def commands(text: str) -> list[Command]:
    """Read a console block."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
            continue
        assert found, f"a console block begins with a command, not with {line!r}"
        last = found[-1]
        if line.startswith("> ") and not last.output:
            found[-1] = last._replace(line=f"{last.line}\n{line[2:]}")
        else:
            found[-1] = last._replace(output=f"{last.output}{line}\n")
    return found


def agrees(expected: str, actual: str) -> bool:
    """Say whether a text is what was expected."""
    lines = [line.rstrip() for line in expected.splitlines()]
    pattern = "".join(r"(?:.*\n)*" if line == _ANY_LINES else rf"{_line_pattern(line)}\n" for line in lines)
    text = "".join(f"{line.rstrip()}\n" for line in actual.splitlines())
    return re.fullmatch(pattern, text) is not None


def _line_pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split("…")))


def plain_arguments(line: str) -> list[str] | None:
    """Give the arguments of a command of ours, or a program and its arguments, that asks nothing of the shell.

    None for what starts many programs of its own, and for Python's options.
    """
    beyond_quotes = re.sub(r"'[^']*'", "", line)
    if _SHELL.search(beyond_quotes):
        return None
    program, *arguments = shlex.split(line)
    is_file = program == "python" and arguments[0].endswith(".py") and arguments[0] != "manage.py"
    is_command = program == "rowbus" and not {"demo", "spark"} & set(arguments)
    return arguments if is_file or is_command else None


class Terminal:
    """A command that was left running, and the lines it prints."""

    def __init__(self, process: subprocess.Popen[str] | Forked) -> None:
        self._process = process
        self._seen: list[str] = []
        self._incoming: queue.Queue[str | None] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._incoming.put(line.rstrip())
        self._incoming.put(None)

    def await_lines(self, expected: str) -> None:
        """Wait for lines to come, in any order, with others between them or not; `^C` waits for those before it."""
        awaited: list[str] = []
        for line in expected.splitlines():
            if line == "^C":
                self._await_all(awaited)
                self.end()
            elif line != _ANY_LINES:
                awaited.append(_line_pattern(line.rstrip()))
        self._await_all(awaited)

    def _await_all(self, patterns: list[str]) -> None:
        deadline = time.monotonic() + PATIENCE
        while patterns:
            line = self._next(deadline)
            if line is None:
                pytest.fail(f"{patterns[0]!r} never came; this did:\n" + "\n".join(self._seen))
            self._seen.append(line)
            matching = next((pattern for pattern in patterns if re.fullmatch(pattern, line)), None)
            if matching is not None:
                patterns.remove(matching)

    def _next(self, deadline: float) -> str | None:
        try:
            return self._incoming.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            return None

    def end(self) -> None:
        """Interrupt the command, which must end well; harmless when it has ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE) == 0, "\n".join(self._seen)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Reader:
    """Somebody who does what a page says, in a folder and with a database of their own."""

    def __init__(
        self, folder: Path, database: str | None, *, forks: bool = False, **environment: str
    ) -> None:
        """Work in a folder, with a database (None: whatever Rowbus chooses) and more in the environment.

        With `forks` what asks nothing of the shell is forked (tests/fixtures/forked.py): pages have many commands.
        """
        self._folder = folder
        self._forks = forks
        self._database = database
        self._terminals: dict[str, Terminal] = {}
        self._environment = {
            **{
                name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"
            },  # splits lines
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "NO_COLOR": "1",
            "COLUMNS": "140",
            **({} if database is None else {"ROWBUS_DATABASE": database}),
            **environment,
        }

    def follow(self, page: Path) -> None:
        """Do all that the page says; fails where something else happens than it says."""
        found = list(blocks(page.read_text(encoding="utf-8")))
        program = [block for block in found if block.kind == "python" and not _file_name(block)]
        expected = "".join(block.text for block in found if block.kind == "output")
        try:
            for block in found:
                self._do(block)
                if program and block is program[-1]:
                    self._run_program(page, program, expected)
            for terminal in self._terminals.values():
                terminal.end()
        finally:
            for terminal in self._terminals.values():
                terminal.kill()

    def _do(self, block: Block) -> None:
        name = _file_name(block)
        if block.kind == "python" and name:
            self._write(name, block)
        elif block.kind == "sql":
            self._execute(block.text)
        elif block.kind == "log":
            self._terminals[block.options["terminal"]].await_lines(block.text)
        elif block.kind == "console":
            self._type(commands(block.text), block)

    def _execute(self, statements: str) -> None:
        if self._database is None:
            self._run(
                Command(f"rowbus embedded psql -- -qv ON_ERROR_STOP=1 <<'SQL'\n{statements}SQL", "…\n"), 0
            )
            return
        with psycopg.connect(self._database, autocommit=True) as connection:
            connection.execute(statements.encode())

    def _write(self, name: re.Match[str], block: Block) -> None:
        file = self._folder / name[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text(encoding="utf-8") if name[2] else ""
        file.write_text(before + block.text, encoding="utf-8")

    def _run_program(self, page: Path, parts: list[Block], expected: str) -> None:
        """Run the page's program; its lines have the numbers they have in the page."""
        lines: list[str] = []
        for part in parts:
            lines += [""] * (part.line - 1 - len(lines)) + part.text.splitlines()
        (self._folder / f"{page.stem}.py").write_text("\n".join(lines), encoding="utf-8")
        self._run(Command(f"python {page.stem}.py", expected), 0)

    def _type(self, typed: list[Command], block: Block) -> None:
        terminal = block.options.get("terminal")
        if terminal is None:
            for command in typed:
                self._run(command, int(block.options.get("exit", 0)) if command is typed[-1] else 0)
            return
        (command,) = typed
        self._terminals[terminal] = Terminal(self._started(command.line))
        self._terminals[terminal].await_lines(command.output)

    def _started(self, line: str) -> subprocess.Popen[str] | Forked:
        arguments = plain_arguments(line) if self._forks else None
        if arguments is not None:
            return self._fork(arguments)
        return subprocess.Popen(
            [BASH, "-c", f"exec {line}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env=self._environment,
        )

    def _fork(self, arguments: list[str]) -> subprocess.Popen[str] | Forked:
        environment = self._environment | forked.AS_USERS_HAVE_IT
        return forked.serve(*arguments, folder=self._folder, environment=environment)

    def _run(self, command: Command, code: int) -> None:
        arguments = plain_arguments(command.line) if self._forks else None
        ended, printed = self._in_a_shell(command.line) if arguments is None else self._forked(arguments)
        if ended != code or not agrees(command.output, printed):
            pytest.fail(
                f"$ {command.line}\nended with code {ended} (said: {code}) and printed:\n{printed}\n"
                f"--- the page says:\n{command.output}"
            )

    def _in_a_shell(self, line: str) -> tuple[int, str]:
        done = subprocess.run(
            [BASH, "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self._folder,
            env=self._environment,
            timeout=COMMAND_SECONDS,
        )
        return done.returncode, done.stdout

    def _forked(self, arguments: list[str]) -> tuple[int, str]:
        process = self._fork(arguments)
        assert process.stdout is not None
        try:
            with process.stdout:
                printed = process.stdout.read()
            return process.wait(COMMAND_SECONDS), printed
        finally:
            process.kill()


def _file_name(block: Block) -> re.Match[str] | None:
    return _FILE.match(block.text.partition("\n")[0])
