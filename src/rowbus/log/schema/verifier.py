"""Compares the event log of a database with what this Rowbus would install: its functions, as their files define them.

Invariants: verifying changes nothing, and runs nothing of a schema before it knows that no untrusted role can have
changed it; statements ask catalogues only, but for `public_functions`, which calls a function of schema `pgq`: it is
for a schema whose functions are as they should be; reading and comparing definitions is pure; bodies are compared
letter by letter, because PostgreSQL keeps them as they were written; generated functions are known by name, and only
their rights are compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.ownership import suspicious
from rowbus.database.statements import Statement, each, load, raw_source, split_script
from rowbus.errors import PermissionDeniedError
from rowbus.log import catalog as log_catalog
from rowbus.log.diagnosis import OLD_GRANTS, OLD_GRANTS_ADVICE, diagnose_captures
from rowbus.log.schema import table as log_schema
from rowbus.log.schema.table import SCHEMAS, files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Query, Rows


_COMMENT: Final = re.compile(r"--[^\n]*")
_HEAD: Final = re.compile(r"\s*create or replace function (?P<name>pgq\w*\.\w+)\(", re.IGNORECASE)
_BODY: Final = re.compile(r"\bas\s+(?P<quote>\$\w*\$)(?P<text>.*)(?P=quote)", re.IGNORECASE | re.DOTALL)
_DEFINER: Final = re.compile(r"\bsecurity\s+definer\b", re.IGNORECASE)
_PATH: Final = re.compile(r"\bset\s+search_path\s*(?:=|\bto\b)\s*(?P<path>\w+(?:\s*,\s*\w+)*)", re.IGNORECASE)
_TEMPLATE: Final = re.compile(r"\$template\$(?P<text>.*?)\$template\$", re.DOTALL)
_VARIANT: Final = re.compile(r"\('(?P<name>\w+triga)', '(?P<format>\w+)'\)")
_RIGHTS: Final = re.compile(
    r"\s*(?P<verb>grant|revoke)\s+(?:execute|all)\s+on\s+(?P<what>.*?)\b(?:from|to)\b(?P<whom>.*)", re.DOTALL
)
_ALL: Final = re.compile(r"all\s+functions\s+in\s+schema\s+(\w+)")
_NAME: Final = re.compile(r"\b(pgq\w*\.\w+)\(")
_GENERATED: Final = re.compile(
    r"pgq\.(?:insert_event_raw|insert_event_\d+|_?generated_event|captured_\d+_[0-9a-f]{12})"
)
_OPEN_IN_THE_OLD_STYLE: Final = frozenset(
    {
        "_await_rotation",
        "_companions_operations",
        "_find_batch",
        "_grant_perms_from",
        "_is_trusted_owner",
        "_open_batch",
        "_range_sql",
        "_range_tables",
        "_subscription_place",
        "_subscription_tail",
        "_untrusted_owner",
    }
)  # of schema pgq, to which grants/_function_role.sql gives a role: in the old style, PUBLIC

PATH_CHANGED: Final = "its search path"

_TRIGGER = re.compile(r"^create (?:or replace )?trigger (\w+)", re.MULTILINE)


class Definition(NamedTuple):
    """A function as a file defines it; `body` is None for one whose body PostgreSQL keeps in a form of its own."""

    name: str
    body: str | None
    runs_as_owner: bool
    search_path: str | None


class Function(NamedTuple):
    """A function that a database has; the columns of `log/sql/postgresql/installation/functions.sql`."""

    name: str
    signature: str
    body: str | None
    runs_as_owner: bool
    search_path: str | None
    is_public: bool
    """Whether PUBLIC may execute it."""


def definition(statement: str) -> Iterator[Definition]:
    """Read the function that a statement of a file defines: one, none, or the three that a template makes."""
    text = _COMMENT.sub("", statement)
    if head := _HEAD.match(text):
        yield _defined(head["name"], statement)
    elif template := _TEMPLATE.search(statement):
        for variant in _VARIANT.finditer(text):
            made = template["text"].replace("%1$I", variant["name"]).replace("%2$L", f"'{variant['format']}'")
            yield _defined(f"pgq.{variant['name']}", made.replace("%%", "%"))


def _defined(name: str, statement: str) -> Definition:
    body = _BODY.search(statement)
    attributes = _COMMENT.sub(
        "", statement if body is None else statement[: body.start()] + statement[body.end() :]
    )
    path = _PATH.search(attributes)
    return Definition(
        name,
        body and body["text"],
        _DEFINER.search(attributes) is not None,
        path and ", ".join(part.strip() for part in path["path"].split(",")),
    )


def private_names(statements: Iterable[str]) -> set[str]:
    """Name the functions that the statements of files, in their order, take from PUBLIC; `schema.*` are all of one."""
    private: set[str] = set()
    for statement in statements:
        found = _RIGHTS.match(_COMMENT.sub("", statement))
        if found is not None and re.search(r"\bpublic\b", found["whom"]):
            names = {
                *_NAME.findall(found["what"]),
                *(f"{schema}.*" for schema in _ALL.findall(found["what"])),
            }
            private = (
                private | names
                if found["verb"] == "revoke"
                else private - names | {f"!{name}" for name in names}
            )
    return private


def compare(
    definitions: Iterable[Definition], functions: Iterable[Function], private: set[str], *, by_role: bool
) -> Iterator[str]:
    """Describe how the functions of a database differ from those defined; `table.missing` lists missing ones.

    `private` names those that PUBLIC must not execute; where grants are not `by_role`, that is for internal ones alone.
    """
    wanted: defaultdict[str, list[Definition]] = defaultdict(list)
    for definition in definitions:
        wanted[definition.name].append(definition)
    seen: Counter[str] = Counter()
    for function in functions:
        seen[function.name] += 1
        different = list(_differences(function, wanted[function.name], seen[function.name]))
        if function.is_public and _is_private(function.name, private, by_role=by_role):
            different.append("every role may execute it")
        if different:
            yield f"function {function.signature}: {', '.join(different)}"


def _is_private(name: str, private: set[str], *, by_role: bool) -> bool:
    schema, _, short = name.partition(".")
    if name in private:
        return by_role or schema != "pgq" or (short.startswith("_") and short not in _OPEN_IN_THE_OLD_STYLE)
    return f"{schema}.*" in private and f"!{name}" not in private


def _differences(function: Function, wanted: list[Definition], number: int) -> Iterator[str]:
    if _GENERATED.fullmatch(function.name):
        return
    if not wanted or number > len(wanted):
        yield "it is not one of Rowbus's"
        return
    best = min(wanted, key=lambda each: sum(_unlike(function, each)))
    body, runs, path = _unlike(function, best)
    if body:
        yield "its text is another"
    if runs:
        yield (
            "it runs with its owner's rights"
            if function.runs_as_owner
            else "it runs with its caller's rights"
        )
    if path:
        yield f"{PATH_CHANGED} is {function.search_path or 'not pinned'}"


def _unlike(function: Function, wanted: Definition) -> tuple[bool, bool, bool]:
    return (
        _letters(wanted.body) != _letters(function.body),
        wanted.runs_as_owner != function.runs_as_owner,
        wanted.search_path != function.search_path,
    )


def _letters(body: str | None) -> str | None:
    """Ignore line ends that other systems' tools change."""
    return body and body.replace("\r\n", "\n")


@cache
def _statements() -> tuple[str, ...]:
    return tuple(text for path in files() for text in split_script(raw_source(path)))


def definitions() -> list[Definition]:
    """Read what this Rowbus would install."""
    return [found for text in _statements() for found in definition(text)]


def private_functions() -> set[str]:
    """Name the functions that this Rowbus takes from PUBLIC."""
    return private_names(_statements())


def functions() -> Statement[list[Function]]:
    """List the functions there are."""
    return Statement(_load("functions"), {"schemas": list(SCHEMAS)}, each(Function._make))


def stray_triggers() -> Statement[list[str]]:
    """Describe the triggers and rules on the log's own tables that Rowbus has not made."""
    known = sorted({name for text in _statements() for name in _TRIGGER.findall(text)})
    return Statement(_load("stray_triggers"), {"schemas": list(SCHEMAS), "triggers": known}, _first_column)


def public_functions() -> Statement[list[str]]:
    """List the functions that PUBLIC may execute although privileges are split by role."""
    return Statement(_load("public_functions"), {}, _first_column)


def _load(operation: str) -> Query:
    return load(
        f"log/sql/postgresql/installation/{operation}.sql",
        failing="Failed to verify the event log",
        prepare=False,
    )


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]


class Verification(NamedTuple):
    """Findings for people: `differences` an installation mends or an operator must; `warnings` were chosen."""

    differences: list[str]
    warnings: list[str]


def verify(session: Session) -> Verification:
    """Compare the log's schema: owners, version, functions with their rights and paths, tables, triggers, grants."""
    state = session.run(log_schema.state())
    if not state.has_queues:
        return Verification(["it is not installed"], [])
    foreign = [str(found) for found in suspicious(session.run(log_schema.foreign_objects()))]
    if foreign:  # the tables may be views
        return Verification(foreign, [])
    if not state.is_ours:
        return Verification(["PgQ made it; `rowbus log adopt` takes it over"], [])
    by_role = session.run(log_schema.grant_style()) == "new"
    differences = [*_version(session), *_functions(session, by_role=by_role)]
    differences += session.run(log_schema.missing())
    differences += session.run(stray_triggers())
    warnings = [] if by_role else [f"{OLD_GRANTS}: {OLD_GRANTS_ADVICE}"]
    return Verification(differences, warnings + _captures(session))


def _captures(session: Session) -> list[str]:
    """Say what captured tables keep from the log or from this role; nothing of another version's schema."""
    if session.run(log_schema.version()) != log_schema.VERSION:
        return []
    faults = diagnose_captures(session.run(log_catalog.capture_faults()))
    return [f"{fault.text}: {fault.advice}" for fault in faults]


def _version(session: Session) -> list[str]:
    installed = session.run(log_schema.version())
    if installed == log_schema.VERSION:
        return []
    return [f"it has version {installed}, not {log_schema.VERSION}"]


def _functions(session: Session, *, by_role: bool) -> list[str]:
    found = list(
        compare(
            definitions(),
            session.run(functions()),
            private_functions(),
            by_role=by_role,
        )
    )
    if by_role and not any("_function_role" in difference for difference in found):
        found += [
            f"function {signature}: every role may execute it"
            for signature in _public(session)
            if not any(difference.startswith(f"function {signature}: ") for difference in found)
        ]
    return found


def _public(session: Session) -> list[str]:
    """List the functions that PUBLIC may execute and one role alone should; only the schema's owner can ask."""
    try:
        return session.run(public_functions())
    except PermissionDeniedError:
        return []
