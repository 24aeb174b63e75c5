"""Print the texture of the package, and with --check hold it to the house's limits.

The figures are sizes, comments, docstrings and annotations; the limits are the few of them that a machine can judge.
Two have exceptions, which say why on their line: `# long sleep: reason` and `# SQL for a reader: reason` (a message
that tells a person what to type).
"""

from __future__ import annotations

import argparse
import ast
import io
import operator
import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "rowbus"
TESTS = ROOT / "tests"

MODULE_LINES = 500
FUNCTION_LINES = 50
TEST_MODULE_LINES = 800
SLEEP_SECONDS = 0.05
FOLDER_MODULES = 25
ONE_PREFIX = 2
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "handler", "misc"}

OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function
LAYOUT_TOKENS = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

SQL = re.compile(
    r"\bselect\b.+\bfrom\b|\bselect\s+\w+\(|\binsert\s+into\b|\bdelete\s+from\b|\bupdate\b.+\bset\b"
    r"|\b(create|drop|alter)\s+(table|index|schema|function|trigger|sequence|database|role)\s+[\w\"]",
    re.IGNORECASE | re.DOTALL,
)
QUESTION = re.compile(r"(What|Who|Whose|Whom|Which|How)\b")


@dataclass(frozen=True)
class Module:
    """One source file, read and parsed."""

    path: Path
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> Module:
        """Read and parse one file."""
        text = path.read_text(encoding="utf-8")
        return cls(path, text, ast.parse(text))

    @property
    def where(self) -> str:
        """Its path, as a reader of the repository would type it."""
        return str(self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path)

    @property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.splitlines()

    @property
    def functions(self) -> list[Function]:
        """Every function and method, nested ones too."""
        return [node for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS)]

    def docstring_lines(self) -> set[int]:
        """Give the numbers of the lines that docstrings take."""
        owners = [node for node in ast.walk(self.tree) if isinstance(node, Documented)]
        return {line for owner in owners for line in docstring(owner)}

    def line_counts(self) -> tuple[int, int, int]:
        """Count lines of code, of comment and of docstring."""
        in_code: set[int] = set()
        in_comment: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                in_comment.update({token.start[0]} if token.line.lstrip().startswith("#") else ())
            elif token.type not in LAYOUT_TOKENS:
                in_code.update(range(token.start[0], token.end[0] + 1))
        in_docstring = self.docstring_lines()
        return len(in_code - in_docstring), len(in_comment), len(in_docstring)


def docstring(owner: Documented) -> range:
    """Give the lines of the docstring of a module, class or function."""
    first = owner.body[0] if owner.body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return range(first.lineno, last_line(first) + 1)
    return range(0)


def last_line(node: ast.stmt | ast.expr) -> int:
    """Give the last line of a node."""
    return node.end_lineno or node.lineno


def length(function: Function) -> int:
    """Count the lines of a function without its docstring and decorators."""
    return last_line(function) - function.lineno + 1 - len(docstring(function))


def parameters(function: Function) -> list[ast.arg]:
    """List the parameters that a caller gives."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [argument for argument in every if argument.arg not in {"self", "cls"}]


def is_annotated(function: Function) -> bool:
    """Say whether every parameter and the result have a type."""
    has_result = function.returns is not None or function.name == "__init__"
    return has_result and all(argument.annotation for argument in parameters(function))


# ------------------------------------------------------------------------------------------------------------ texture


def quantile(values: Sequence[int], share: float) -> int:
    """Give the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))] if ordered else 0


def texture(modules: Sequence[Module]) -> Iterator[str]:
    """Describe a package in a handful of lines."""
    sizes = [len(module.lines) for module in modules]
    counts = [module.line_counts() for module in modules]
    code, comments, docs = (sum(column) for column in zip(*counts, strict=True))
    functions = [function for module in modules for function in module.functions]
    lengths = [length(function) for function in functions] or [0]
    arguments = [len(parameters(function)) for function in functions] or [0]
    annotated = sum(map(is_annotated, functions)) / max(len(functions), 1)
    yield f"modules         {len(modules)}, {code} lines of code"
    yield f"module lines    median {quantile(sizes, 0.5)}, p90 {quantile(sizes, 0.9)}, most {max(sizes)}"
    yield (
        f"function lines  median {quantile(lengths, 0.5)}, mean {statistics.mean(lengths):.1f}, "
        f"p90 {quantile(lengths, 0.9)}, most {max(lengths)}"
    )
    share = 100 / max(code, 1)
    yield f"per 100 lines   {share * comments:.1f} of comment, {share * docs:.1f} of docstring"
    yield f"annotated       {annotated:.0%}; most parameters {max(arguments)}"


# ------------------------------------------------------------------------------------------------------------- limits


def faults_in_package(module: Module) -> Iterator[str]:
    """Check one module of the package."""
    yield from too_long(module, MODULE_LINES)
    yield from functions_too_long(module)
    yield from sql_outside_sql_files(module)
    yield from questions(module)
    if module.path.stem in FORBIDDEN_NAMES:
        yield f"{module.where}:1: {module.path.stem!r} says nothing; name the module after what is in it"


def faults_in_folders(modules: Sequence[Module]) -> Iterator[str]:
    """Find folders with too many modules, and modules that one prefix sorts: such a prefix wants a folder."""
    named = [module.path for module in modules if module.path.stem != "__init__"]
    for folder, count in Counter(path.parent for path in named).items():
        if count > FOLDER_MODULES:
            yield f"{folder.relative_to(ROOT)}: {count} modules, at most {FOLDER_MODULES}; which subject is in it?"
    prefixes = Counter((path.parent, path.stem.partition("_")[0]) for path in named if "_" in path.stem)
    for (folder, prefix), count in prefixes.items():
        if count > ONE_PREFIX:
            yield f"{folder.relative_to(ROOT)}: {count} modules begin with {prefix}_; give them a folder"


def faults_in_tests(module: Module) -> Iterator[str]:
    """Check one module of the tests."""
    yield from too_long(module, TEST_MODULE_LINES)
    yield from long_sleeps(module)


def too_long(module: Module, limit: int) -> Iterator[str]:
    """Find a module with too many lines."""
    if len(module.lines) > limit:
        yield f"{module.where}:1: {len(module.lines)} lines, at most {limit}; which second subject can move out?"


def functions_too_long(module: Module) -> Iterator[str]:
    """Find functions with too many lines."""
    for function in module.functions:
        lines = length(function)
        if lines > FUNCTION_LINES:
            yield f"{module.where}:{function.lineno}: {function.name} has {lines} lines, at most {FUNCTION_LINES}"


def sql_outside_sql_files(module: Module) -> Iterator[str]:
    """Find strings that are SQL: those belong in a .sql file, where psql and the linter can read them."""
    skipped = module.docstring_lines()
    skipped |= {number for number, line in enumerate(module.lines, 1) if "# SQL for a reader: " in line}
    for node in ast.walk(module.tree):
        found = SQL.search(text_of(node))
        line = getattr(node, "lineno", 0)
        if found and line not in skipped:
            skipped.add(line)
            yield f"{module.where}:{line}: SQL in a string ({found[0][:40]!r}); give it a .sql file"


def questions(module: Module) -> Iterator[str]:
    """Find docstrings that begin as questions do: they name no thing and no act."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and (found := QUESTION.match(text_of(node.value))):
            yield f"{module.where}:{node.lineno}: a docstring begins with {found[0]}; begin with a noun or a verb"


def text_of(node: ast.AST) -> str:
    """Give the text of a string or f-string, with `x` where a value would stand; nothing of anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "x" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def long_sleeps(module: Module) -> Iterator[str]:
    """Find sleeps that slow the tests down or hide a race: wait for a signal instead."""
    lines, constants = module.lines, constants_of(module)
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not node.args or name_of(node.func) != "sleep":
            continue
        seconds = most(node.args[0], constants)
        if seconds is not None and seconds > SLEEP_SECONDS and "# long sleep: " not in lines[node.lineno - 1]:
            yield f"{module.where}:{node.lineno}: sleeps {seconds:g} s, at most {SLEEP_SECONDS:g}; wait for a signal"


def constants_of(module: Module) -> dict[str, float]:
    """Give the numbers that the module names."""
    found: dict[str, float] = {}
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and (value := most(node.value, found)) is not None:
            found |= {target.id: value for target in node.targets if isinstance(target, ast.Name)}
    return found


def most(expression: ast.expr, constants: Mapping[str, float]) -> float | None:
    """Give the largest value of a number, a named one, a quotient or product of such, or a random one; else None."""
    if isinstance(expression, ast.Name):
        return constants.get(expression.id)
    if isinstance(expression, ast.BinOp) and type(expression.op) in OPERATIONS:
        left, right = most(expression.left, constants), most(expression.right, constants)
        return None if left is None or not right else OPERATIONS[type(expression.op)](left, right)
    if isinstance(expression, ast.Call) and name_of(expression.func) in {"random", "uniform"}:
        return most(expression.args[-1], constants) if expression.args else 1.0
    return number(expression)


def name_of(function: ast.expr) -> str:
    """Give the last part of the name of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def number(expression: ast.expr) -> float | None:
    """Give the value of a literal number, None of anything else."""
    try:
        value = ast.literal_eval(expression)
    except ValueError:
        return None
    return float(value) if isinstance(value, int | float) else None


def read_all(folder: Path) -> list[Module]:
    """Read every module of a folder."""
    return [Module.read(path) for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts]


def main() -> int:
    """Print the texture of the package and, if asked to, every breach of a limit."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "folder", nargs="?", type=Path, default=PACKAGE, help="the package (default: %(default)s)"
    )
    arguments.add_argument("--check", action="store_true", help="exit with 1 if a limit is broken")
    chosen = arguments.parse_args()
    modules = read_all(chosen.folder.resolve())
    if not modules:
        sys.exit(f"{chosen.folder}: no Python here")
    print("\n".join(texture(modules)))
    if not chosen.check:
        return 0
    faults = [fault for module in modules for fault in faults_in_package(module)]
    faults += faults_in_folders(modules)
    faults += [fault for module in read_all(TESTS) for fault in faults_in_tests(module)]
    print("\n".join(faults) if faults else "limits          kept")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
