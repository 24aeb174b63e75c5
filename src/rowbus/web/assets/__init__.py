"""The files that browsers load: one style sheet, one script, one picture. All of them are open to everyone.

Invariant: nothing but the files of this folder is served.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.requests import Request

TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


async def asset(request: Request) -> Response:
    """Answer with a file; browsers keep it for a year, since its address has its version."""
    name = request.path_params["path"]
    if name not in _names():
        return PlainTextResponse("There is no such file.\n", 404)
    kind = TYPES[name.rpartition(".")[2]]
    return Response(
        _content(name), media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"}
    )


@cache
def _names() -> frozenset[str]:
    return frozenset(file.name for file in files(__name__).iterdir() if file.name.rpartition(".")[2] in TYPES)


@cache
def _content(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()
