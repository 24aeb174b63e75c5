"""Print the circles of imports among the modules of the package: those that need each other, one by one or in turn.

    python -m tools.circles

An import counts wherever it stands: at the top, in a function, for types only. Modules of one circle can be understood
only together, whatever Python makes of their order. The exit code is 1 when there are more than `MOST`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "rowbus"
MOST = 3

Imports = Mapping[str, frozenset[str]]
"""By module, the modules of the package that it imports."""


def imports_of(package: Path) -> Imports:
    """Read what each module of a package imports of it."""
    paths = {_name(package, path): path for path in package.rglob("*.py")}
    return {
        module: frozenset(_imported(module, path, frozenset(paths))) - {module}
        for module, path in paths.items()
    }


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: str, path: Path, known: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            named = (f"{origin}.{alias.name}" for alias in node.names)
            yield from (name if name in known else origin for name in named if {name, origin} & known)


def circles(imports: Imports) -> list[list[str]]:
    """Return the modules that lead to each other, circle by circle."""
    reached = {module: _reached(module, imports) for module in imports}
    found = {
        frozenset(other for other in others if module in reached[other])
        for module, others in reached.items()
        if module in others
    }
    return sorted(map(sorted, found))


def _reached(module: str, imports: Imports) -> set[str]:
    """Return the modules that a module's imports lead to."""
    reached, left = set[str](), [module]
    while left:
        new = imports[left.pop()] - reached
        reached |= new
        left.extend(new)
    return reached


def main() -> int:
    """Print the circles; return 1 if there are more than allowed."""
    found = circles(imports_of(PACKAGE))
    for circle in found:
        print(" ⇄ ".join(circle))
    print(f"{len(found)} circles, at most {MOST}")
    return int(len(found) > MOST)


if __name__ == "__main__":
    sys.exit(main())
