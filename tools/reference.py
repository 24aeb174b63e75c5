"""Write docs/reference from the code, so that neither can say what the other does not.

One function a page: each returns the page's text and touches no file. The text must be the same on every machine and
in every run (no addresses, no set order, no terminal width), because `--check` compares it with what is committed.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import ForwardRef

import typer
from typer.core import TyperGroup
from typer.main import get_command

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
SQL = ROOT / "src" / "rowbus"
SIGNATURE_WIDTH = 100
NEVER_MADE = {"Context", "SyncContext", "Header"}  # by users, who are given them
SETTINGS_ELSEWHERE = (
    "Recoverability",
    "DelayedDeliverySettings",
)  # names of the façade that are settings too
NOTICE = "<!-- Written by `make docs` from the code; change the code. -->"

# ------------------------------------------------------------------------------------------------------------ api.md


def api_page() -> str:
    """Describe every public name: the façade, the errors, Spark, and what users need for their tests."""
    facade = importlib.import_module("rowbus")
    errors = importlib.import_module("rowbus.errors")
    intro = (
        "What `import rowbus` offers, in the order of `rowbus.__all__`; then the errors, `rowbus.spark`, and "
        "`rowbus.testing`."
    )
    parts = ["# Python API", intro]
    for title, names in groups(facade):
        elsewhere = [
            name for name in names if getattr(getattr(facade, name), "__module__", "") == errors.__name__
        ]
        if elsewhere != names:
            parts += [f"## {title}", *(entry(facade, name) for name in names if name not in elsewhere)]
            parts += [
                ", ".join(f"`{name}`" for name in elsewhere) + ": see [Errors](#errors)." if elsewhere else ""
            ]
    parts += ["## Errors", prose(errors), "```text\n" + "\n".join(error_tree(errors)) + "\n```"]
    parts += [entry(errors, name) for name in public_names(errors)]
    for name in ("rowbus.spark", "rowbus.spark.pipelines", "rowbus.testing"):
        module = importlib.import_module(name)
        parts += [f"## {name}", prose(module), *(entry(module, public) for public in public_names(module))]
    return page(parts)


def groups(module: ModuleType) -> Iterator[tuple[str, list[str]]]:
    """Give the names of `__all__` under the comments that group them."""
    source = inspect.getsource(module)
    start = source.find("__all__")
    title, names = module.__name__, list[str]()
    for line in source[start:].splitlines():
        comment = re.match(r"\s+# (.+)", line)
        if comment:
            if names:
                yield title, names
            title, names = comment[1][0].upper() + comment[1][1:].rstrip(".:"), []
        names += [name for name in re.findall(r'"(\w+)"', line) if not name.startswith("_")]
        if line.startswith("]") or line.endswith("]"):
            break
    yield title, names


def public_names(module: ModuleType) -> list[str]:
    """Give the names that a module offers, in the order of its source."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [
        name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
    ]
    return [name for name in own if not name.startswith("_")]


def entry(module: ModuleType, name: str) -> str:
    """Describe one public name."""
    value = getattr(module, name)
    if inspect.isclass(value):
        parts = [code(declaration(name, value)), prose(value), constructor(value), *members(value)]
        return page([f"### {name}", *parts])
    if inspect.isroutine(value):
        return page([f"### {name}", code(declaration(name, value)), prose(value)])
    if inspect.ismodule(value):
        return page([f"### {name}", f"The module `{value.__name__}`.", prose(value)])
    return page([f"### {name}", code(f"{name} = {scrub(repr(value))}")])


def constructor(value: type) -> str:
    """Give what the docstring of a class's own `__init__` says about making one, for those that users make."""
    init = vars(value).get("__init__")
    return prose(init) if init is not None and value.__name__ not in NEVER_MADE and init.__doc__ else ""


def error_tree(module: ModuleType) -> Iterator[str]:
    """Draw the classes of a module under their parents."""
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    own = [value for value in classes if value.__module__ == module.__name__]

    def below(parent: type, depth: int) -> Iterator[str]:
        for child in own:
            if child.__bases__[0] is parent:
                yield "    " * depth + child.__name__
                yield from below(child, depth + 1)

    for root in own:
        if root.__bases__[0] not in own:
            yield root.__name__
            yield from below(root, 1)


def members(owner: type) -> Iterator[str]:
    """Describe the attributes, then the public methods and properties, of a class."""
    attributes = list(attribute_lines(owner))
    if attributes:
        yield "\n".join(attributes)
    for name, value in public_members(owner):
        target = value.fget if isinstance(value, property) else value
        inner = getattr(target, "__func__", target)
        kind = "property " if isinstance(value, property) else ""
        title = declaration(f"{owner.__name__}.{name}", inner, kind=kind)
        yield page([f"#### {owner.__name__}.{name}", code(title), prose(inner)])


def public_members(owner: type) -> Iterator[tuple[str, object]]:
    """Give the methods and properties that users of a class see, its private bases' included."""
    seen: set[str] = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("rowbus") or (base is not owner and is_public(base)):
            continue
        for name, value in vars(base).items():
            inner = getattr(value, "__func__", value)
            if (
                name.startswith("_")
                or name in seen
                or not (isinstance(value, property) or inspect.isroutine(inner))
            ):
                continue
            seen.add(name)
            yield name, value


def is_public(value: type) -> bool:
    """Say whether a class has an entry of its own."""
    return value.__name__ in getattr(importlib.import_module("rowbus"), "__all__", [])


def attribute_lines(owner: type) -> Iterator[str]:
    """Describe enumeration members and annotated attributes, one a line."""
    documented = attribute_docstrings(owner)
    if issubclass(owner, enum.Enum):
        for member in owner:
            yield bullet(f"{owner.__name__}.{member.name}", documented.get(member.name, ""))
        return
    defaults = field_defaults(owner)
    for name, annotation in vars(owner).get("__annotations__", {}).items():
        if annotation == "Final":
            yield bullet(f"{name} = {getattr(owner, name)!r}", documented.get(name, ""))
        elif not name.startswith("_"):
            default = f" = {defaults[name]}" if name in defaults else ""
            yield bullet(f"{name}: {annotation_text(annotation)}{default}", documented.get(name, ""))


def attribute_docstrings(owner: type) -> dict[str, str]:
    """Give the strings, or else the comments, that follow or precede the attributes in the class's source."""
    try:
        source = textwrap.dedent(inspect.getsource(owner))
    except (OSError, TypeError):
        return {}
    lines = source.splitlines()
    tree = ast.parse(source).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    found = dict[str, str]()
    for statement, after in zip(body, [*body[1:], None], strict=True):
        for name in assigned_names(statement):
            found[name] = string_of(after) or comment_above(lines, statement.lineno)
    return found


def assigned_names(statement: ast.stmt) -> list[str]:
    """Give the names that a statement of a class body assigns or annotates."""
    targets = (
        [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]


def string_of(statement: ast.stmt | None) -> str:
    """Give the text of a statement that is only a string."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return one_line(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def comment_above(lines: list[str], number: int) -> str:
    """Give the `#:` comment that stands right above a line."""
    comment = list[str]()
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#:"):
            break
        comment.insert(0, line.strip().removeprefix("#:").strip())
    return " ".join(comment)


def field_defaults(owner: type) -> dict[str, str]:
    """Give the defaults of a dataclass's fields as a reader would type them."""
    if not dataclasses.is_dataclass(owner):
        return {}
    found = dict[str, str]()
    for field in dataclasses.fields(owner):
        if field.default is not dataclasses.MISSING:
            found[field.name] = default_text(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = f"{getattr(field.default_factory, '__name__', 'factory')}()"
    return found


# ------------------------------------------------------------------------------------------------------------ cli.md


def cli_page() -> str:
    """Describe every command, as its --help does."""
    module = importlib.import_module("rowbus.cli")
    applications = [value for value in vars(module).values() if isinstance(value, typer.Typer)]
    application = getattr(module, "app", None) or applications[0]
    root = get_command(application)
    parts = [
        "# Command line",
        *command_parts(root, typer.Context(root, info_name="rowbus", terminal_width=100)),
    ]
    return page(parts)


def command_parts(command: object, context: typer.Context) -> Iterator[str]:
    """Describe one command and those below it."""
    help_text = inspect.cleandoc(getattr(command, "help", None) or "").split("\f")[0].strip()
    usage = context.command.get_usage(context).removeprefix("Usage: ")
    depth = context.command_path.count(" ")
    if depth:
        yield f"{'#' * min(depth + 1, 4)} {context.command_path}"
    yield f"```text\n{usage}\n```"
    yield sections(help_text)
    records = [parameter.get_help_record(context) for parameter in context.command.get_params(context)]
    rows = [record for record in records if record and not record[0].startswith("--help")]
    yield "\n".join(bullet(left, one_line(right)) for left, right in rows)
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            if not child.hidden:
                below = typer.Context(child, info_name=name, parent=context, terminal_width=100)
                yield from command_parts(child, below)


# ------------------------------------------------------------------------------------------------------- settings.md


def settings_page() -> str:
    """Describe every setting: name, type, default, meaning."""
    module = importlib.import_module("rowbus.settings")
    parts = ["# Settings", prose(module)]
    for name, value in setting_classes(module):
        parts += [f"## {name}", prose(value), "\n".join(attribute_lines(value))]
        parts += [
            page([f"### {name}.{method}", prose(getattr(inner, "__func__", inner))])
            for method, inner in public_members(value)
            if not isinstance(inner, property)
        ]
    return page(parts)


def setting_classes(module: ModuleType) -> Iterator[tuple[str, type]]:
    """Give the classes of settings: those of their module, then those of the façade that are values with defaults."""
    facade = importlib.import_module("rowbus")
    for place, names in ((module, public_names(module)), (facade, SETTINGS_ELSEWHERE)):
        for name in names:
            value = getattr(place, name)
            if dataclasses.is_dataclass(value) and isinstance(value, type):
                yield name, value


# ------------------------------------------------------------------------------------------------------------ sql.md


def sql_page() -> str:
    """Describe every SQL file by its header comment and its placeholders."""
    intro = (
        "Every statement that Rowbus sends, one a file, in `sql/<database>/` of its subject's folder. "
        "Each runs in psql as it is: "
        "`:\"name\"` stands for an identifier, `:'name'` for a value (`psql -v name=…`)."
    )
    parts = ["# SQL", intro]
    folder = None
    for path in sorted(SQL.rglob("*.sql")):
        if path.parent != folder:
            folder = path.parent
            parts.append(f"## {folder.relative_to(SQL)}")
        parts += [f"### {path.name}", *sql_parts(path.read_text(encoding="utf-8"))]
    return page(parts)


def sql_parts(text: str) -> Iterator[str]:
    """Describe one SQL file."""
    header = re.match(r"(?:--.*\n)*", text)
    yield "\n".join(line.removeprefix("--").strip() for line in (header[0] if header else "").splitlines())
    identifiers = dict.fromkeys(re.findall(r':"(\w+)"', text))
    values = dict.fromkeys(re.findall(r"(?<!:):'(\w+)'", text))
    if identifiers or values:
        names = [f'`:"{name}"`' for name in identifiers] + [f"`:'{name}'`" for name in values]
        yield "Takes " + ", ".join(names) + "."


# -------------------------------------------------------------------------------------------------- spark-options.md

SPARK_OPTIONS = (
    ("Reading logs", "log_source.options", "LOG_SOURCE"),
    ("Reading queues", "queue_source.options", "QUEUE_SOURCE"),
    ("Writing", "sink.options", "SINK"),
    ("Writing to Delta and Iceberg", "lake.options", "LAKE_SINK"),
)
"""What options are about, the module in `rowbus.spark` that declares them, and the name of its table."""


def spark_options_page() -> str:
    """Describe every option of `format("rowbus")`: name, what may be given, default, meaning."""
    options = importlib.import_module("rowbus.spark.options")
    intro = (
        'What `spark.read`, `readStream`, `write` and `writeStream` with `.format("rowbus")` take as `.option(name, '
        "value)`. Names match in any case. An option that is not here is refused."
    )
    parts = ["# Spark's options", intro]
    for title, name, table in SPARK_OPTIONS:
        module = importlib.import_module(f"rowbus.spark.{name}")
        rows = options.described(getattr(module, table))
        parts += [f"## {title}", after_first_line(prose(module)), option_table(rows)]
    for delivery, place in importlib.import_module("rowbus.spark.sink.options").DELIVERIES.items():
        module = importlib.import_module(place)
        rows = options.described(module.OPTIONS)
        parts += [f"## Writing with deliver={delivery}", after_first_line(prose(module)), option_table(rows)]
    return page(parts)


def option_table(rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Set options as a table."""
    head = ["| option | value | default | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *(option_row(*row) for row in rows)])


def option_row(name: str, kind: str, default: str, meaning: str) -> str:
    """Set an option as a line of a table."""
    shown = default if default in {"", "required"} else f"`{default}`"
    return f"| `{name}` | {cell(kind)} | {cell(shown)} | {cell(meaning)} |"


def after_first_line(text: str) -> str:
    """Give a docstring without its first paragraph, which names the module's subject, and without its invariant."""
    return text.partition("\n\n")[2].partition("Invariant:")[0]


def cell(text: str) -> str:
    """Set a text as a cell of a table."""
    return one_line(text).replace("|", "\\|")


# -------------------------------------------------------------------------------------------------------------- text


def declaration(name: str, value: object, *, kind: str = "") -> str:
    """Write the signature of a class, function or property as one would write it in a stub."""
    word = (
        "class " if inspect.isclass(value) else "async def " if inspect.iscoroutinefunction(value) else "def "
    )
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return f"class {name}({value.__bases__[-1].__name__})"
    if inspect.isclass(value) and value.__name__ in NEVER_MADE:
        return f"class {name}"
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]  # anything callable; the rest is caught
    except (TypeError, ValueError):
        return f"{word}{name}"
    visible = [plain(parameter) for parameter in signature.parameters.values()]
    if kind:
        return f"{kind}{name}: {annotation_text(signature.return_annotation)}"
    if visible and visible[0].name in {"self", "cls"}:
        visible = visible[1:]
    result = signature.return_annotation
    returns = (
        inspect.Signature.empty
        if inspect.isclass(value) or result is inspect.Signature.empty
        else Raw(annotation_text(result))
    )
    return (
        word
        + name
        + wrapped(signature.replace(parameters=visible, return_annotation=returns), len(word + name))
    )


@dataclasses.dataclass(frozen=True)
class Raw:
    """A text that stands for itself in a signature."""

    text: str

    def __repr__(self) -> str:
        """Give the text without quotes."""
        return self.text


def plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Give the parameter with annotation and default as a reader would type them."""
    empty = inspect.Parameter.empty
    annotation = (
        parameter.annotation if parameter.annotation is empty else Raw(annotation_text(parameter.annotation))
    )
    default = parameter.default if parameter.default is empty else Raw(default_text(parameter.default))
    return parameter.replace(annotation=annotation, default=default)


def wrapped(signature: inspect.Signature, indent: int) -> str:
    """Write a signature on one line, or, if it is wide, with one parameter a line."""
    text = str(signature)
    if indent + len(text) <= SIGNATURE_WIDTH:
        return text
    result = signature.return_annotation
    lines = "".join(f"    {part},\n" for part in one_a_line(list(signature.parameters.values())))
    return f"(\n{lines})" + ("" if result is inspect.Signature.empty else f" -> {result}")


def one_a_line(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Write each parameter, with the bare `/` and `*` that stand between the kinds."""
    kinds = [parameter.kind for parameter in parameters]
    for position, parameter in enumerate(parameters):
        before = kinds[position - 1] if position else None
        if before is parameter.POSITIONAL_ONLY is not parameter.kind:
            yield "/"
        if parameter.kind is parameter.KEYWORD_ONLY and before not in {
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        }:
            yield "*"
        yield str(parameter)


def annotation_text(annotation: object) -> str:
    """Write a type as its source does."""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return scrub(inspect.formatannotation(annotation))


def default_text(value: object) -> str:
    """Write a default so that it can be typed."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isroutine(value) or inspect.isclass(value):
        return value.__qualname__
    return scrub(repr(value)).replace("datetime.timedelta", "timedelta")


def scrub(text: str) -> str:
    """Take out what differs from run to run or from machine to machine."""
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace(str(Path.home()), "~")


def prose(value: object) -> str:
    """Give the docstring of a module, class or function as Markdown."""
    own = value.__doc__ if inspect.isclass(value) else inspect.getdoc(value)
    return sections(inspect.cleandoc(own)) if own else ""


def sections(text: str) -> str:
    """Turn the sections of a Google docstring into bold words and lists."""
    lines, inside = list[str](), False
    for line in text.splitlines():
        heading = re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes):", line)
        item = re.match(r"    (\S.*)", line)
        if heading:
            lines.append(f"**{heading[1]}**\n")
        elif inside and item:
            lines.append(f"- {item[1]}")
        else:
            lines.append(line.strip() if inside else line)
        inside = bool(heading) or (inside and (not line or line.startswith(" ")))
    return "\n".join(lines).strip()


def bullet(term: str, meaning: str) -> str:
    """Write one line of a list of terms."""
    return f"- `{term}`: {meaning}" if meaning else f"- `{term}`"


def one_line(text: str) -> str:
    """Join the lines of a text."""
    return " ".join(text.split())


def code(text: str) -> str:
    """Set a text as Python."""
    return f"```python\n{text}\n```"


def page(parts: list[str]) -> str:
    """Join paragraphs."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


PAGES: dict[str, Callable[[], str]] = {
    "api.md": api_page,
    "cli.md": cli_page,
    "settings.md": settings_page,
    "spark-options.md": spark_options_page,
    "sql.md": sql_page,
}


def main() -> int:
    """Write the pages, or with --check say which of them are out of date."""
    arguments = argparse.ArgumentParser(description="Write docs/reference from the code.")
    arguments.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a page is out of date"
    )
    check = arguments.parse_args().check
    outdated = list[str]()
    for name, write in PAGES.items():
        path = REFERENCE / name
        text = f"{NOTICE}\n\n{write()}\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            outdated.append(str(path.relative_to(ROOT)))
            if not check:
                REFERENCE.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if check:
        print(
            f"Out of date: {', '.join(outdated)}; run `make docs`."
            if outdated
            else "docs/reference is up to date."
        )
        return 1 if outdated else 0
    print(f"Wrote {', '.join(outdated) or 'nothing: all is up to date'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
