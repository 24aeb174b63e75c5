"""Contents of messages and events as people read them: JSON, text, or digits; what is masked stays hidden.

A path is a small part of JSONPath (RFC 9535): `$` is the whole body, `.name` or `['name']` a member, `[3]` an element,
`.*` or `[*]` all members or elements, `..name` a member at any depth.

Invariants: pure and bounded; what paths mask is masked before anything else is made of it; where there are paths, text
that is not JSON is not shown: where in it they lead cannot be told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.json_bodies import reason_not_json
from rowbus.messages.message import read_body

MASK: Final = "•••"
NOT_JSON: Final = "••• (hidden: paths are masked here, and this body is not JSON)"
_STEP: Final = re.compile(
    r"\.\.(?P<deep>[^.\[\]*'\"\s]+)|\.(?P<any>\*)|\.(?P<name>[^.\[\]*'\"\s]+)"
    r"|\[(?P<element>\d+)\]|\[(?P<all>\*)\]|\[(?P<quote>['\"])(?P<quoted>[^'\"]+)(?P=quote)\]"
)


def refuse_what_is_no_json(text: str) -> None:
    """Raise ConfigurationError for a form's body that is to be JSON and is none."""
    if reason := reason_not_json(text):
        raise ConfigurationError(f"The body is not JSON: {reason}. Go back, and mend it; nothing was sent.")


class Step(NamedTuple):
    """One step of a path: to a member, an element (None: to all of them), or to a member at any depth."""

    key: str | int | None
    deep: bool = False


Path = tuple[Step, ...]


def parse_path(text: str) -> Path:
    """Read a path; raises ConfigurationError for what is none."""
    if not text.startswith("$"):
        raise _refusal(text)
    steps, at = list[Step](), 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise _refusal(text)
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def mask(body: str, paths: Sequence[str]) -> str:
    """Return a body with what the paths lead to replaced by `•••`; as it is if there are no paths.

    JSON is written anew, with an indent of 2. Raises ConfigurationError for a path that is none.
    """
    if not paths:
        return body
    read = [parse_path(path) for path in paths]
    try:
        value = json.loads(body.removeprefix("\ufeff"))
        for path in read:
            value = _masked(value, path)
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):  # the latter also for what is nested too deep to be masked
        return NOT_JSON if body else body


def _refusal(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text!r} is no path of a body. It begins with $; then .name, ['name'], [3], .* or ..name, for example "
        "$.card.* or $..iban."
    )


def _step(found: re.Match[str]) -> Step:
    if found["deep"]:
        return Step(found["deep"], deep=True)
    if found["element"]:
        return Step(int(found["element"]))
    return Step(found["name"] or found["quoted"])


def _masked(value: Any, path: Path) -> Any:  # noqa: ANN401 - what JSON holds
    if not path:
        return MASK
    step = path[0]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            key: _member(item, key == step.key or step.key is None, path) for key, item in members.items()
        }
    if isinstance(value, list):
        items = cast("Sequence[Any]", value)
        return [
            _member(item, not step.deep and step.key in {None, position}, path)
            for position, item in enumerate(items)
        ]
    return value


def _member(item: Any, fits: bool, path: Path) -> Any:  # noqa: ANN401, FBT001 - what JSON holds
    masked = _masked(item, path[1:]) if fits else item
    return _masked(masked, path) if path[0].deep else masked


MOST_BYTES: Final = 262_144
"""The part of a body that is read to be shown."""

MOST_TEXT: Final = 20_000
"""Characters of one content that are shown."""


class Content(NamedTuple):
    """A content as text; `note` says how it was read, or what is left out."""

    text: str
    note: str = ""


def body_content(body: bytes | None, size: int, paths: Sequence[str]) -> Content:
    """Return the beginning of a body of so many bytes as people read it."""
    found = read_body(body)
    if found.text is None:
        return Content("", "there is no body")
    shown = text_content(found.text, paths)
    notes = [shown.note, "hexadecimal" if found.encoding == "hex" and not paths else ""]
    if body is not None and len(body) < size:
        notes.append(f"the first {len(body):,} of {size:,} bytes")
    return Content(shown.text, "; ".join(filter(None, notes)))


def text_content(text: str, paths: Sequence[str]) -> Content:
    """Return a text as people read it: JSON indented."""
    shown = mask(text, paths) if paths else _indented(text)
    if len(shown) > MOST_TEXT:
        return Content(shown[:MOST_TEXT], f"the first {MOST_TEXT:,} of {len(shown):,} characters")
    return Content(shown)


def _indented(text: str) -> str:
    """Indent JSON whose numbers read the same afterwards; return any other text as it is."""
    try:
        value = json.loads(text, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else text


def _refuse(text: str) -> float:
    """Keep a number that writing it anew would change; refuse the text that holds another."""
    number = float(text)
    if repr(number) != text:
        raise ValueError(text)
    return number
