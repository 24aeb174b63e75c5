"""A walk: the functions of a package that a run begins, and how often it passes from one file to another.

A call into another file is a change of file, and so is the return from it; a coroutine that waits, and one that goes on
after a wait, change nothing. What runs outside the package is left out, and so is an import. A comprehension is a part
of its function, as it is to a reader, and to Python from 3.12 on.
"""

from __future__ import annotations

import statistics
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from dis import opmap
from pathlib import Path
from types import FrameType
from typing import NamedTuple

RESUME, YIELD = opmap["RESUME"], opmap["YIELD_VALUE"]
NO_FUNCTIONS = {"<module>", "<listcomp>", "<setcomp>", "<dictcomp>"}


class Function(NamedTuple):
    """A function, by the place of its code."""

    file: str
    name: str
    line: int


class Change(NamedTuple):
    """A change of file: which one is left, and which one is entered."""

    before: str
    after: str


@dataclass(slots=True)
class Walk:
    """The functions begun, and the changes of file, each as often as it happened."""

    functions: set[Function] = field(default_factory=set[Function])
    changes: Counter[Change] = field(default_factory=Counter[Change])

    @property
    def files(self) -> set[str]:
        """The files that are entered: those of the functions begun."""
        return {function.file for function in self.functions}


def typical(walks: Sequence[Walk]) -> Walk:
    """Return what most of several walks have: chance is in few of them, and what is needed is missing in few."""
    begun = Counter(function for walk in walks for function in walk.functions)
    changes = {change for walk in walks for change in walk.changes}
    return Walk(
        {function for function, times in begun.items() if times > len(walks) / 2},
        Counter({one: statistics.median_low(walk.changes[one] for walk in walks) for one in changes}),
    )


class Tracer:
    """Sees what runs of the files below a folder: in the thread that asks for it, and in those that begin meanwhile."""

    def __init__(self, folder: Path) -> None:
        """Take the folder."""
        self._folder = f"{folder}/"

    @contextmanager
    def walk(self) -> Iterator[Walk]:
        """Note what is walked until the block ends."""
        walk = Walk()

        def see(frame: FrameType, event: str, _argument: object) -> None:
            self._see(walk, frame, event)

        threading.setprofile(see)
        sys.setprofile(see)
        try:
            yield walk
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, walk: Walk, frame: FrameType, event: str) -> None:
        if not self._is_function(frame):
            return
        if event == "call" and _begins(frame):
            code = frame.f_code
            walk.functions.add(Function(self._file(frame), code.co_qualname, code.co_firstlineno))
            self._note(walk, self._caller(frame), frame)
        elif event == "return" and not _waits(frame):
            self._note(walk, frame, self._caller(frame))

    def _note(self, walk: Walk, before: FrameType | None, after: FrameType | None) -> None:
        """Note a call or a return, if it is a change of file."""
        if before is not None and after is not None and self._file(before) != self._file(after):
            walk.changes[Change(self._file(before), self._file(after))] += 1

    def _caller(self, frame: FrameType) -> FrameType | None:
        """Return the function of the package that a frame was called from, by whatever is between them."""
        caller = frame.f_back
        while caller is not None and not self._is_function(caller):
            caller = caller.f_back
        return caller

    def _is_function(self, frame: FrameType) -> bool:
        code = frame.f_code
        return code.co_filename.startswith(self._folder) and code.co_name not in NO_FUNCTIONS

    def _file(self, frame: FrameType) -> str:
        return frame.f_code.co_filename.removeprefix(self._folder)


def _begins(frame: FrameType) -> bool:
    """Say whether a call begins a function; a coroutine that goes on is called, too."""
    code, at = frame.f_code.co_code, max(frame.f_lasti, 0)
    return code[at] != RESUME or code[at + 1] == 0


def _waits(frame: FrameType) -> bool:
    """Say whether a return is a coroutine's that waits, or a generator's that yields."""
    return frame.f_code.co_code[max(frame.f_lasti, 0)] == YIELD
