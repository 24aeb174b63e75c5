"""Functions of the event log as their files define them, and how those that a database has differ from them.

Invariant: pure. Bodies are compared letter by letter: PostgreSQL keeps them as they were written. Generated functions
are known by name, and only their rights are compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    for each in definitions:
        wanted[each.name].append(each)
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
