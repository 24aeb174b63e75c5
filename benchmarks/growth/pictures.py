"""Pictures of curves: an SVG each, by the library that draws Spark's report (decision 0024).

Invariant: the same figures give the same picture, and no request is made.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import vl_convert

from benchmarks.growth.curves import Curve, Most, Share, base_of

VEGA_LITE = "6.4"
WIDE = 20  # sizes that are further apart are on a logarithmic axis
SPECIFICATION = Path(__file__).with_name("curve.json")


def draw(curve: Curve, folder: Path) -> Path:
    """Write the picture of a curve, named after it; return where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_slug(f'{curve.title} {curve.key}')}.svg"
    path.write_text(_svg(curve), encoding="utf-8")
    return path


def _svg(curve: Curve) -> str:
    specification = json.loads(SPECIFICATION.read_text("utf-8"))
    texts = {
        "x": curve.x,
        "y": curve.line.unit or curve.line.name,
        "heading": f"{curve.title}: {curve.line.name}",
    }
    sizes = [point.x for point in curve.points]
    parameters = {**texts, "sizes": sizes}
    specification["params"] = [{"name": name, "value": value} for name, value in parameters.items()]
    if sizes[-1] < WIDE * sizes[0]:
        specification["encoding"]["x"]["scale"]["type"] = "linear"
    points = [{"size": point.x, "figure": point.figure} for point in curve.points]
    limit = _limit(curve)
    specification["data"] = {"values": [*points, *([{"limit": limit}] if limit is not None else [])]}
    return vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE, allowed_base_urls=[])


def _limit(curve: Curve) -> float | None:
    """Return where the target is on the axis of the figure."""
    target, more = curve.line.target, curve.line.more_is_better
    if isinstance(target, Most):
        return target.most
    if isinstance(target, Share):
        base = base_of(curve).figure
        return base * target.least if more else base / target.least
    return None


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
