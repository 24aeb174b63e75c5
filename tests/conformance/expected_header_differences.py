"""Where a row of ours has other headers than .NET's row of the same kind, and why that is right.

A difference that is not listed here fails tests/conformance/test_dotnet_headers.py, and so does one that is listed and
no longer there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rowbus.messages.headers import Header

ABSENT: Final = "(absent)"


class Difference(NamedTuple):
    """One header: the form of what .NET writes, of what we write, and why."""

    header: str
    dotnet: str
    rowbus: str
    reason: str


AUDITS: Final = {
    "audit of a delayed send of a handler",
    "audit of a delayed send",
    "audit of a failure put back",
    "audit of a reply",
    "audit of a retried message",
    "audit of a saga's command",
    "audit of a send of a handler",
    "audit of a send",
    "audit of an answer that is a number",
}
ERRORS: Final = {"error copy", "error copy with a trace", "error copy with an inner exception"}

EXPECTED: Final[dict[Difference, set[str]]] = {
    Difference(
        "$.diagnostics.license.expired",
        "true",
        ABSENT,
        "The recorded endpoints had no licence; Rowbus needs none.",
    ): AUDITS,
    Difference(
        Header.EXCEPTION_TRACEBACK,
        ABSENT,
        "<traceback>",
        "Python's own traceback, with source lines; the stack trace is in .NET's form, for ServiceControl's groups.",
    ): ERRORS,
    Difference(
        Header.FORWARD_DESTINATION,
        "Sales",
        '"public"."Sales"',
        "A canonical address means the same table whichever schema its reader is in.",
    ): {"delayed send"},
    Difference(
        Header.FORWARD_DESTINATION,
        '"public"."Sales"',
        ABSENT,
        "Our mover puts a due message into its destination itself; .NET's puts it into its own queue first.",
    ): {"delayed retry, back in its queue"},
    Difference(
        Header.MESSAGE_ID,
        ABSENT,
        "<id of None>",
        "Each message of ours has an id; ServiceControl goes by ServiceControl.Retry.UniqueMessageId.",
    ): {"acknowledgement of a retry"},
    Difference(
        Header.TIME_SENT,
        "<timestamp>",
        ABSENT,
        "The message had none; .NET writes when the copy was made, and ServiceControl takes that for the message's.",
    ): {"audit of a retried message"},
    Difference(
        Header.VERSION,
        "<version>",
        ABSENT,
        "The message had none: the copy does not say that an NServiceBus sent it.",
    ): {"audit of a retried message"},
}

HIDDEN: Final = {
    Header.CONVERSATION_ID: "The first message of a conversation of ours gives it its id; .NET draws another one. "
    "Compared is to which conversation a message belongs.",
    Header.ENCLOSED_MESSAGE_TYPES: "Ours are full names, .NET's have the assembly, which Python's classes have not. "
    "Compared are the full names and their order.",
    Header.EXCEPTION_STACK_TRACE: "Compared is the form: type and message, inner exceptions, frames. "
    "tests/transport/recoverability/test_stack_traces.py compares what ServiceControl makes of them.",
    Header.EXCEPTION_TYPE: "Python's exceptions have names of their own.",
    Header.VERSION: "Ours is the version of NServiceBus whose headers we write.",
}
"""Differences that header_forms.py lets pass on purpose, beside ids, times, hosts and machines."""
