"""Measurements as text that Prometheus reads.

Source: the text-based exposition format 0.0.4 (Prometheus's documentation, "Exposition formats").

Invariant: pure; a name from a message stays within its quotes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rowbus.running.telemetry.series import Family, Sample

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LONGEST_VALUE: Final = 200  # characters of a label's value

_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")


def exposition(families: Iterable[Family]) -> str:
    """Return the text; families without values are left out."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    samples = list(family.samples())
    if not samples:
        return
    name = family.name + ("_total" if family.kind == "counter" else "")
    yield f"# HELP {name} {_help(family.help)}\n# TYPE {name} {family.kind}\n"
    for sample in samples:
        yield _line(family.name, sample)


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in sample.labels)
    return f"{name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(value: str) -> str:
    cut = value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 1]}…"
    safe = cut.encode("utf-8", "replace").decode()
    return safe.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def merged(texts: Iterable[tuple[str, str]], label: str) -> str:
    """Return several texts as one, each sample with a label more, whose value stands before its text.

    A family stands together, as the format wants it, and is described once.
    """
    described: dict[str, str] = {}
    samples: dict[str, list[str]] = {}
    for value, text in texts:
        family = ""
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split(" ", 3)[2]
                samples.setdefault(family, [])
                described.setdefault(family, f"{line}\n")
            elif line.startswith("# TYPE "):
                described[family] += "" if "# TYPE" in described[family] else f"{line}\n"
            elif found := _SAMPLE.fullmatch(line):
                samples.setdefault(family, []).append(_with_label(found, label, value))
    return "".join(described.get(family, "") + "".join(lines) for family, lines in samples.items())


def _with_label(found: re.Match[str], label: str, value: str) -> str:
    labels = ",".join(filter(None, (found["labels"], f'{label}="{_escaped(value)}"')))
    return f"{found['name']}{{{labels}}} {found['value']}\n"
