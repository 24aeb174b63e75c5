"""Rows as .NET writes them: the files of tests/golden."""

from __future__ import annotations

import base64
import json
import re
from typing import NamedTuple

from tests.conformance.backend import Backend
from tests.fixtures.places import GOLDEN

ADDRESS = re.compile(r'"public"\."([^"]+)"')
ESCAPED_ADDRESS = re.compile(r'\\"public\\"\.\\"([^"\\]+)\\"')


class Golden(NamedTuple):
    """One file of tests/golden."""

    headers_text: str
    body: bytes
    expected_headers: dict[str, str | None]

    @classmethod
    def read(cls, name: str, backend: Backend) -> Golden:
        """Read a file; the addresses of its queues become the backend's."""
        facts = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
        expected = {
            key: value and ADDRESS.sub(lambda found: str(backend.queue(found[1])), value)
            for key, value in facts["expected_headers"].items()
        }
        text = ESCAPED_ADDRESS.sub(
            lambda found: json.dumps(str(backend.queue(found[1])))[1:-1], facts["headers_text"]
        )
        return cls(text, base64.b64decode(facts["body_base64"]), expected)
