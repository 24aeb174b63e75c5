"""The site's reference pages, made from the code at each build: none is committed, so none can be out of date.

mkdocstrings writes the Python API from docstrings; here a page only lists what it is to describe. Typer's own
generator writes the command line. The Spark options and the SQL files are set as tables and paragraphs here.

Invariant: every function returns text and touches no file but those it reads; the same code gives the same text.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from typer.cli import get_docs_for_click
from typer.core import TyperGroup
from typer.main import get_command

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "rowbus"
SETTINGS_ELSEWHERE = ("Recoverability", "DelayedDeliverySettings")  # settings that are not in rowbus.settings
NEVER_MADE = {  # by users, who are given them: how one is made is left out
    "rowbus.Context",
    "rowbus.SyncContext",
    "rowbus.LogContext",
    "rowbus.SyncLogContext",
    "rowbus.Header",
}
_OF_ADDRESSES = (
    "backend",
    "body_string_lock",
    "can_exist",
    "channel",
    "meant",
    "neighbour",
    "satellite",
    "sequence",
    "validate",
)
FOR_OTHER_FOLDERS = {  # of Rowbus: members that are public there alone
    "rowbus.ClaimCheck": ("asks", "bound", "keep", "over", "reading"),
    "rowbus.ClaimTable": ("address",),
    "rowbus.Endpoint": ("parts", "require_handlers"),
    "rowbus.QueueAddress": _OF_ADDRESSES,
    "rowbus.RateLimit": ("at_once", "bucket", "interval"),
    "rowbus.Saga": ("component",),
    "rowbus.SqlServerAddress": (*_OF_ADDRESSES, "creation_lock", "qualified"),
}
SUBJECTS = {
    "api": "Python API",
    "settings": "Settings",
    "errors": "Errors",
    "spark": "rowbus.spark",
    "spark-options": "Spark options",
    "lake": "rowbus.lake",
    "testing": "rowbus.testing",
    "servicecontrol": "rowbus.servicecontrol",
    "cli": "Command line",
    "sql": "SQL files",
}
"""The pages and their titles, in the order of the navigation."""


def pages() -> dict[str, str]:
    """Return each page's text under its name."""
    return {
        "api": api_page(),
        "settings": settings_page(),
        "errors": errors_page(),
        "spark": modules_page("spark", ["rowbus.spark", "rowbus.spark.pipelines"]),
        "spark-options": spark_options_page(),
        "lake": modules_page("lake", ["rowbus.lake"]),
        "testing": modules_page("testing", ["rowbus.testing"]),
        "servicecontrol": modules_page("servicecontrol", ["rowbus.servicecontrol"]),
        "cli": cli_page(),
        "sql": sql_page(),
    }


# --------------------------------------------------------------------------------------------------------- Python API


def api_page() -> str:
    """List the names of the façade under the comments that group them; settings and errors have pages of their own."""
    facade = importlib.import_module("rowbus")
    elsewhere = dict.fromkeys(setting_names(), "settings") | dict.fromkeys(error_names(), "errors")
    parts = [
        heading("api"),
        "What `import rowbus` offers. A name that is not here may change without notice.",
    ]
    parts.append("\n".join(["| subject | names |", "| --- | --- |", *api_contents(facade, elsewhere)]))
    for title, names in groups(facade):
        here = [entry(f"rowbus.{name}", inherited=True) for name in names if name not in elsewhere]
        parts += [f"## {title}", *here] if here else []
    return page(parts)


def api_contents(facade: ModuleType, elsewhere: dict[str, str]) -> Iterator[str]:
    """Give the lines of a table of contents: a group of names, and where each of them is, here or on another page."""
    for title, names in groups(facade):
        places = {name: f"{elsewhere[name]}.md" if name in elsewhere else "" for name in names}
        links = (f"[`{name}`]({place}#rowbus.{name})" for name, place in places.items())
        yield f"| {title} | {', '.join(links)} |"


def groups(module: ModuleType) -> Iterator[tuple[str, list[str]]]:
    """Give the names of a façade's `__all__` under the comments that group them."""
    source = inspect.getsource(importlib.import_module(f"{module.__name__}.facade"))
    lines = source.partition("__all__ = [")[2].partition("\n]")[0].splitlines()[1:]
    title, names = module.__name__, list[str]()
    for line in lines:
        if line.strip().startswith("# "):
            if names:
                yield title, names
            title, names = line.strip().removeprefix("# ").capitalize(), []
        names += re.findall(r'"(\w+)"', line)
    yield title, names


def entry(name: str, *, inherited: bool = False) -> str:
    """Have mkdocstrings describe one name; `inherited` adds what a class has from its private bases."""
    options = ["      inherited_members: true"] if inherited else []
    options += ["      merge_init_into_class: false"] if name in NEVER_MADE else []
    if name in FOR_OTHER_FOLDERS:
        options.append(f'      filters: ["!^_", "!^({"|".join(FOR_OTHER_FOLDERS[name])})$"]')
    return "\n".join([f"::: {name}", *(["    options:"] if options else []), *options])


def settings_page() -> str:
    """List the classes of settings; mkdocstrings writes each field with its type, default and docstring."""
    module = importlib.import_module("rowbus.settings")
    return page([heading("settings"), prose(module), *(entry(f"rowbus.{name}") for name in setting_names())])


def setting_names() -> list[str]:
    """Give the names of the façade that are settings."""
    facade = importlib.import_module("rowbus")
    return [
        name
        for name in facade.__all__
        if name in SETTINGS_ELSEWHERE or getattr(facade, name).__module__ == "rowbus.settings"
    ]


def errors_page() -> str:
    """Show the tree of errors, then each of them."""
    module, facade = importlib.import_module("rowbus.errors"), importlib.import_module("rowbus")
    names = (
        f"rowbus.{name}" if name in facade.__all__ else f"rowbus.errors.{name}" for name in error_names()
    )
    return page([heading("errors"), prose(module), *(entry(name) for name in names)])


def error_names() -> list[str]:
    """Give the names of the public errors."""
    found = vars(importlib.import_module("rowbus.errors")).values()
    return [
        value.__name__
        for value in found
        if inspect.isclass(value)
        and value.__module__ == "rowbus.errors"
        and not value.__name__.startswith("_")
    ]


def modules_page(name: str, modules: Iterable[str]) -> str:
    """Describe modules that users import, with each public name."""
    parts = [heading(name)]
    for module in map(importlib.import_module, modules):
        parts += [f"## {module.__name__}", prose(module)]
        parts += [entry(f"{module.__name__}.{public}", inherited=True) for public in module.__all__]
    return page(parts)


# ------------------------------------------------------------------------------------------------------- command line


def cli_page() -> str:
    """Describe every command as Typer does, with whole sentences in the lists of commands."""
    root: Any = get_command(importlib.import_module("rowbus.cli").app)
    whole_sentences(root)
    text = get_docs_for_click(
        obj=root, ctx=typer.Context(root, info_name="rowbus"), name="rowbus", title=SUBJECTS["cli"]
    )
    return escaped_ranges(text)


def whole_sentences(command: Any) -> None:  # noqa: ANN401 - typer brings its own click, or uses the one installed
    """Set each command's short help to its first paragraph, which Typer would cut to a line."""
    command.short_help = first_paragraph(command.help or "")
    if isinstance(command, TyperGroup):
        for child in command.commands.values():
            whole_sentences(child)


def first_paragraph(text: str) -> str:
    """Give the first paragraph of a docstring on one line."""
    return one_line(inspect.cleandoc(text).partition("\n\n")[0])


def escaped_ranges(text: str) -> str:
    """Keep `[x>=1]` and `[default: 50]` from being read as links to names."""
    return re.sub(
        r"(?<=  )\[([^\]\n]+)\]|(?<=; )\[([^\]\n]+)\]", lambda match: f"({match[1] or match[2]})", text
    )


# ------------------------------------------------------------------------------------------------------ Spark options

OPTION_TABLES = (
    ("Reading logs", "log_source.options", "LOG_SOURCE"),
    ("Reading queues", "queue_source.options", "QUEUE_SOURCE"),
    ("Writing", "sink.writer", "SINK"),
    ("Writing to Delta and Iceberg", "lake.options", "LAKE_SINK"),
    ("Tables that follow a database", "lake.tables.writer", "TABLES_SINK"),
)
"""A heading, the module in `rowbus.spark` that declares these options, and the name of its table."""


def spark_options_page() -> str:
    """Describe every option of `format("rowbus")`: name, what may be given, default, meaning."""
    intro = (
        'Options of `spark.read`, `readStream`, `write` and `writeStream` with `.format("rowbus")`, given as '
        "`.option(name, value)`. Names match in any case. An option that is not listed here is refused."
    )
    parts = [heading("spark-options"), intro]
    for title, name, table in OPTION_TABLES:
        parts += option_section(title, f"rowbus.spark.{name}", table)
    for delivery, place in importlib.import_module("rowbus.spark.sink.writer").TARGETS.items():
        parts += option_section(f"Writing with deliver={delivery}", place, "OPTIONS")
    return page(parts)


def option_section(title: str, place: str, table: str) -> Iterator[str]:
    """Describe the options that one module declares."""
    module = importlib.import_module(place)
    rows = importlib.import_module("rowbus.spark.options").described(getattr(module, table))
    yield f"## {title}"
    yield prose(module).partition("\n\n")[2]
    head = ["| option | value | default | meaning |", "| --- | --- | --- | --- |"]
    yield "\n".join([*head, *(option_row(*row) for row in rows)])


def option_row(name: str, kind: str, default: str, meaning: str) -> str:
    """Set an option as a line of a table."""
    shown = default if default in {"", "required"} else f"`{default}`"
    return (
        "| "
        + " | ".join([f"`{name}`", *(one_line(text).replace("|", "\\|") for text in (kind, shown, meaning))])
        + " |"
    )


# ---------------------------------------------------------------------------------------------------------- SQL files

INTERNAL = {"demo", "testing"}
"""Folders whose statements users have no use for."""


def sql_page() -> str:
    """Describe every SQL file by its header comment and its placeholders, folder by folder."""
    intro = (
        "The statements that Rowbus sends, a file each, below `src/rowbus`. Each runs in psql as it is: "
        "`:\"name\"` stands for an identifier, `:'name'` for a value (`psql -v name=…`). Left out are those of the "
        "demo and of tests, and functions whose names begin with `_`: the schema calls them itself."
    )
    folders = sql_folders()
    parts = [
        heading("sql"),
        intro,
        "\n".join(["| subject | statements |", "| --- | --- |", *sql_contents(folders)]),
    ]
    for folder, paths in folders.items():
        parts.append(f"## {folder}")
        for path in paths:
            parts += [f"### {path.name}", *sql_parts(path.read_text(encoding="utf-8"))]
    return page(parts)


def sql_folders() -> dict[str, list[Path]]:
    """Return the files of statements that are not internal, by their folders."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.sql"), key=lambda path: (path.parent, path.name)):
        place = path.parent.relative_to(PACKAGE)
        if not path.name.startswith("_") and place.parts[0] not in INTERNAL:
            found.setdefault(place.as_posix(), []).append(path)
    return found


def sql_contents(folders: Iterable[str]) -> Iterator[str]:
    """Give the lines of a table of contents: a subject, and its folders of statements."""
    subjects: dict[str, list[str]] = {}
    for folder in folders:
        subject, _, below = folder.partition("/sql/")
        subjects.setdefault(subject, []).append(f"[{below}](#{re.sub(r'[^a-z0-9_-]', '', folder)})")
    yield from (f"| {subject} | {', '.join(links)} |" for subject, links in subjects.items())


def sql_parts(text: str) -> Iterator[str]:
    """Describe one SQL file."""
    header = re.match(r"(?:--.*\n)*", text)
    yield "\n".join(line.removeprefix("--").strip() for line in (header[0] if header else "").splitlines())
    names = [f'`:"{name}"`' for name in dict.fromkeys(re.findall(r':"(\w+)"', text))]
    names += [f"`:'{name}'`" for name in dict.fromkeys(re.findall(r"(?<!:):'(\w+)'", text))]
    if names:
        yield "Takes " + ", ".join(names) + "."


# --------------------------------------------------------------------------------------------------------------- text


def heading(name: str) -> str:
    """Write the title of a page."""
    return f"# {SUBJECTS[name]}"


def prose(module: ModuleType) -> str:
    """Give a module's docstring without the invariant, which is for those who change the module."""
    return inspect.cleandoc(module.__doc__ or "").partition("Invariant:")[0].strip()


def one_line(text: str) -> str:
    """Join the lines of a text."""
    return " ".join(text.split())


def page(parts: Iterable[str]) -> str:
    """Join paragraphs."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
