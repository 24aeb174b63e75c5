"""The grants of a whole system, from a file that says what each role is for.

Invariant: touches no database; a key or a name that means nothing is refused, before anything is printed.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer

from rowbus.cli.options import addresses_in, queue_addresses
from rowbus.cli.schema.tables import Plan, Purpose, plans_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LOG = "log"
LOG_PURPOSES = {"send", "receive", "operate"}
HINT = "--roles"


class RoleGrants(NamedTuple):
    """What one role is for: purposes with the tables of each, and what it does with logs."""

    role: str
    grants: list[tuple[Plan, Purpose]]
    log: frozenset[str]


def read_roles(
    file: Path, target: str | None, schema: str | None, database: str | None
) -> Iterator[RoleGrants]:
    """Read a file: a table a role, with a list of endpoints and queues for each purpose.

    Names are those of the system's endpoints; others are queues. Raises BadParameter.
    """
    plans = {} if target is None else _by_name(target, schema, database)
    for role, wanted in _read(file).items():
        if not isinstance(wanted, dict):
            raise typer.BadParameter(f"[{role}] is no table.", param_hint=HINT)
        yield _role(role, cast("dict[str, Any]", wanted), plans, schema, database)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint=HINT) from error


def _by_name(target: str, schema: str | None, database: str | None) -> dict[str, Plan]:
    plans = plans_for(target, None, schema, database)
    return {plan.inputs[0].table: plan for plan in plans}


def _role(
    role: str, wanted: dict[str, Any], plans: Mapping[str, Plan], schema: str | None, database: str | None
) -> RoleGrants:
    unknown = wanted.keys() - {*Purpose._fields, LOG}
    if unknown:
        known = ", ".join((*Purpose._fields, LOG))
        raise typer.BadParameter(f"[{role}] has {min(unknown)!r}, which is none of {known}.", param_hint=HINT)
    names = addresses_in(database, schema)
    log = frozenset(_names(role, LOG, wanted.pop(LOG, [])))
    if log - LOG_PURPOSES:
        raise typer.BadParameter(f"[{role}] log has {min(log - LOG_PURPOSES)!r}.", param_hint=HINT)
    grants = list[tuple[Plan, Purpose]]()
    for purpose, given in wanted.items():
        meant = Purpose(**{purpose: True})
        if given is True:  # for what has no tables of an endpoint's; who only looks, looks at these, too
            among = {key: key in wanted for key in ("view", "operate")}
            grants.append((Plan(names, [], [], database), meant._replace(**among)))
            continue
        for name in _names(role, purpose, given):
            plan = plans.get(name) or Plan(names, queue_addresses([name], names), [], database)
            grants.append((plan, meant))
    return RoleGrants(role, grants, log)


def _names(role: str, key: str, given: object) -> list[str]:
    names = cast("list[object]", given) if isinstance(given, list) else [given]
    if not isinstance(given, list) or not all(isinstance(name, str) for name in names):
        raise typer.BadParameter(f"[{role}] {key} is a list of names.", param_hint=HINT)
    return [str(name) for name in names]
