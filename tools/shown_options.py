"""Has the docs site show each option of a verb in place of `**options`, as `help()` does: an extension of Griffe's.

Invariant: what is shown is what the verb takes, with its defaults, from the class of options that its signature names.
"""

from __future__ import annotations

import re

import griffe

from rowbus.transport import send_verbs

UNPACKED = re.compile(r"Unpack\[(\w+)\]")


class ShownOptions(griffe.Extension):
    """Spells out the options of functions and of their overloads."""

    def on_function(self, *, func: griffe.Function, **_more: object) -> None:
        """Change the parameters of a function that takes options."""
        for one in (func, *(func.overloads or ())):
            last = list(one.parameters)[-1:]
            found = UNPACKED.fullmatch(str(last[0].annotation)) if last else None
            if found is not None:
                del one.parameters[last[0].name]
                _add(one.parameters, found[1])


def _add(parameters: griffe.Parameters, kind: str) -> None:
    for option in send_verbs.parameters_of(getattr(send_verbs, kind)):
        parameters.add(
            griffe.Parameter(
                option.name,
                annotation=option.annotation,
                kind=griffe.ParameterKind.keyword_only,
                default=repr(option.default),
            )
        )
