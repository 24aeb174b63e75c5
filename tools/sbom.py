"""Write a CycloneDX bill of materials: Rowbus, and each package that it was tested with: `tools/sbom.py WHEEL`.

The packages are those of requirements/demo.lock: what `rowbus[embedded,spark]` needs, with versions and hashes. A wheel
of Rowbus holds none of them: it asks for them by name, and pip finds them.

Invariant: the same wheel and lock give the same text, byte for byte: no serial number, no clock but SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "demo.lock"
BUILDS = ROOT / "requirements" / "build.lock"
_ENTRY = re.compile(r"^([a-z0-9-]+)==([^\s;\\]+)(.*(?:\n .*)*)", re.MULTILINE)


def bill(wheel: Path) -> dict[str, Any]:
    """Return the bill for a wheel of Rowbus."""
    name, version, *_ = wheel.name.split("-")
    product = component(name, version, [hashlib.sha256(wheel.read_bytes()).hexdigest()])
    packages = list(locked(LOCK.read_text("utf-8"), without=locked_names(BUILDS)))
    needs = sorted(package["bom-ref"] for package in packages)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {**_time(), "component": product | {"licenses": [{"license": {"id": "MIT"}}]}},
        "components": packages,
        "dependencies": [{"ref": product["bom-ref"], "dependsOn": needs}],
    }


def locked(text: str, without: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """Give a component for each package of a lock."""
    for name, version, rest in _ENTRY.findall(text):
        if name not in without:
            yield component(name, version, re.findall(r"--hash=sha256:([0-9a-f]{64})", rest))


def locked_names(lock: Path) -> frozenset[str]:
    """Return the names of a lock's packages."""
    return frozenset(name for name, _, _ in _ENTRY.findall(lock.read_text("utf-8")))


def component(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    """Describe one package; of several files with hashes, each is named."""
    address = f"pkg:pypi/{name}@{version}"
    found = [{"alg": "SHA-256", "content": one} for one in sorted(hashes)]
    return {
        "type": "library",
        "bom-ref": address,
        "name": name,
        "version": version,
        "purl": address,
        "hashes": found,
    }


def _time() -> dict[str, str]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return {} if epoch is None else {"timestamp": datetime.fromtimestamp(int(epoch), UTC).isoformat()}


def main() -> None:
    """Write the bill beside the wheel."""
    wheel = Path(sys.argv[1])
    written = wheel.with_name(wheel.name.removesuffix("-py3-none-any.whl") + ".cdx.json")
    written.write_text(json.dumps(bill(wheel), indent=2) + "\n", encoding="utf-8")
    print(written)


if __name__ == "__main__":
    main()
