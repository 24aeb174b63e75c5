"""A model of ServiceControl's default classifier: the group that a failure falls into in ServicePulse.

Written from what ServiceControl makes of the 45 traces in `servicecontrol_stack_traces.json`
(docs/wire-format.md#stack-traces), not from its code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Mapping

FRAME = re.compile(
    r"""
    [ \t]* \w+ [ \t]+
    (?P<call>
        [^\s(]+ \. [^\s(]+                             # dotted.name
        \( (?: [ \t]* | [^\s)][^)]* [ \t] [^)]*[^\s)] ) \)  # nothing, or two words at least
    )
    (?: [ \t]+ \w+ [ \t]+ (?: / | [A-Za-z]: ) .+ : \w+ [ \t]+ [0-9]+ )?
    \s*
    """,
    re.VERBOSE,
)


def group_of(exception_type: str, message: str | None, trace: str | None) -> str:
    """Return the title of a failure's group."""
    for line in (trace or "").replace(message or "\0", "").splitlines():
        if found := FRAME.fullmatch(line):
            return f"{exception_type}: {found['call']}"
    return f"{exception_type}: No stacktrace"


def group_of_headers(headers: Mapping[str, str | None]) -> str:
    """Return the title of the group of a message in the error queue."""
    return group_of(
        headers[Header.EXCEPTION_TYPE] or "",
        headers[Header.EXCEPTION_MESSAGE],
        headers[Header.EXCEPTION_STACK_TRACE],
    )
