"""Privileges of each role by the catalogue, as text that is the same on every server.

Invariant: asked of the server by its own functions (`has_…_privilege`), so what PUBLIC and memberships give is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.security.installation import ROLES, Installation

SCHEMAS = ("public", "pgq", "pgq_coop", "pgq_ext", "pgq_node", "rowbus_spark")
EVERYBODY = "everybody"

SCHEMAS_QUERY = """
    select n.nspname::text, array(
        select r.role || ':' || p.letter
        from unnest(%(roles)s::text[]) as r (role), (values ('usage', 'U'), ('create', 'C')) as p (name, letter)
        where has_schema_privilege(r.role, n.oid, p.name))
    from pg_namespace as n
    where n.nspname = any(%(schemas)s) order by 1
"""
TABLES_QUERY = """
    select n.nspname || '.' || c.relname, array(
        select r.role || ':' || p.letter
        from unnest(%(roles)s::text[]) with ordinality as r (role, position),
            (values (1, 'select', 'S'), (2, 'insert', 'I'), (3, 'update', 'U'), (4, 'delete', 'D'),
                (5, 'truncate', 'T'), (6, 'references', 'R'), (7, 'trigger', 'G')) as p (position, name, letter)
        where has_table_privilege(r.role, c.oid, p.name)
            or p.name = 'insert' and has_any_column_privilege(r.role, c.oid, p.name)
        order by r.position, p.position)
    from pg_class as c inner join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p', 'v', 'm', 'f')
    order by n.nspname collate "C", c.relname collate "C"
"""
SEQUENCES_QUERY = """
    select n.nspname || '.' || c.relname, array(
        select r.role || ':' || p.letter
        from unnest(%(roles)s::text[]) with ordinality as r (role, position),
            (values (1, 'usage', 'N'), (2, 'select', 'S'), (3, 'update', 'U')) as p (position, name, letter)
        where has_sequence_privilege(r.role, c.oid, p.name)
        order by r.position, p.position)
    from pg_class as c inner join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = any(%(schemas)s) and c.relkind = 'S'
    order by n.nspname collate "C", c.relname collate "C"
"""
FUNCTIONS_QUERY = """
    select n.nspname || '.' || p.proname || '('
            || replace(replace(oidvectortypes(p.proargtypes), 'timestamp with time zone', 'timestamptz'), ', ', ',')
            || ')',
        p.prosecdef,
        array(
            select r.role from unnest(%(roles)s::text[]) with ordinality as r (role, position)
            where has_function_privilege(r.role, p.oid, 'execute') order by r.position)
    from pg_proc as p inner join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = any(%(schemas)s)
    order by n.nspname collate "C", p.proname collate "C", oidvectortypes(p.proargtypes) collate "C"
"""


def page(place: Installation) -> str:
    """Return the part of docs/privileges.md that the catalogue answers."""
    parts = [
        ("Schemas", "`U` use, `C` create in it.", list(_granted(place, SCHEMAS_QUERY))),
        (
            "Tables and views",
            "`S` select, `I` insert (not `seq`), `U` update, `D` delete, `T` truncate, `R` references, `G` trigger.",
            list(_granted(place, TABLES_QUERY)),
        ),
        ("Sequences", "`N` next value, `S` read, `U` set.", list(_granted(place, SEQUENCES_QUERY))),
    ]
    text = [f"## {title}\n\n{letters}\n\n{table(rows)}" for title, letters, rows in parts]
    return "\n\n".join([*text, _functions(place)])


def _granted(place: Installation, query: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each object with a cell for each role."""
    for name, grants in place.owner.execute(query.encode(), _parameters(place)):
        letters = dict.fromkeys(place.names.values(), "")
        for grant in grants:
            role, _, letter = grant.rpartition(":")
            letters[role] += letter
        yield name, list(letters.values())


def _parameters(place: Installation) -> dict[str, list[str]]:
    return {"roles": list(place.names.values()), "schemas": list(SCHEMAS)}


def table(rows: Iterable[tuple[str, list[str]]]) -> str:
    """Give a table with a column for each role, and one row for all that are granted alike."""
    head = ["| |" + "|".join(f" {role} " for role in ROLES) + "|", "| --- |" + " :-: |" * len(ROLES)]
    alike = _alike((f"`{name}`", tuple(cells)) for name, cells in rows)
    return "\n".join(
        [*head, *(f"| {'<br>'.join(names)} |{'|'.join(cells)}|" for cells, names in alike.items())]
    )


def _alike(rows: Iterable[tuple[str, tuple[str, ...]]]) -> dict[tuple[str, ...], list[str]]:
    """Collect names by what holds for them, in order."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, what in rows:
        found.setdefault(what, []).append(name)
    return found


def _functions(place: Installation) -> str:
    """List for each set of callers what they may call; a definer's runs with its owner's rights."""
    asked = place.owner.execute(FUNCTIONS_QUERY.encode(), _parameters(place))
    alike = _alike(
        (f"`{name}`", (_callers(place, callers), str(definer))) for name, definer, callers in asked
    )
    lines = [
        f"| {callers} | {'its owner' if definer == 'True' else 'its caller'} | {', '.join(names)} |"
        for (callers, definer), names in alike.items()
    ]
    intro = "`everybody` includes the stranger. Trigger functions do nothing when they are called."
    head = "| may be called by | runs as | functions |\n| --- | --- | --- |"
    return f"## Functions\n\n{intro}\n\n{head}\n" + "\n".join(lines)


def _callers(place: Installation, callers: list[str]) -> str:
    plain = {name: role for role, name in place.names.items()}
    return (
        EVERYBODY
        if len(callers) == len(plain)
        else ", ".join(plain[role] for role in callers) or "its owner alone"
    )
