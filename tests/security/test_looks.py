"""Looks for tables by shape: they run no stranger's code, wait for nobody, and say what they left out."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from typer.core import TyperGroup

from rowbus.errors import RowbusError
from rowbus.web.asgi import PAGES
from tests.fixtures.command_line import Ask, CommandLine, as_role
from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tests.security.commands import CHANGING, COMMANDS, READING, prepare
from tests.security.installation import SHOP, Installation, command_line, installed, run
from tests.security.strangers_tables import (
    KINDS,
    LOOKS,
    MALLORY,
    NAMED,
    OWN,
    ROW,
    bait,
    copy_all,
    hold,
    lay_out,
    look,
    police,
    publish_nothing,
    set_every_trap,
    squat,
    swap_for_views,
)

PATIENCE = 20.0  # seconds after which a look counts as one that hangs


@every("name", LOOKS)
def test_no_policy_of_a_stranger_runs(name: str, rowbus: CommandLine, ask: Ask, role: str) -> None:
    lay_out(ask)
    police(ask)

    said = look(rowbus, as_role(rowbus.database, role), name)

    assert ask("select is_called from mallory.caught") == [(False,)]
    assert f"belongs to {MALLORY}" in said


@every("name", [*LOOKS, "contracts page"])
def test_no_cast_of_a_stranger_runs(name: str, rowbus: CommandLine, ask: Ask) -> None:
    lay_out(ask, evil=True)

    look(rowbus, rowbus.database, name)

    assert ask("select is_called from mallory.caught") == [(False,)]


@every("name", [*LOOKS, "contracts page"])
def test_no_view_runs_that_takes_the_place_of_a_table_that_was_found(
    name: str, rowbus: CommandLine, ask: Ask
) -> None:
    lay_out(ask)

    with psycopg.connect(rowbus.database) as stranger:
        swap_for_views(lambda text: stranger.execute(text.encode()))
        with _beside(lambda: look(rowbus, rowbus.database, name)) as thread:
            _await_lock(ask, thread)
            stranger.commit()

    assert ask("select is_called from mallory.caught") == [(False,)]


@every("name", LOOKS)
def test_nobody_who_locks_a_table_makes_a_look_wait(name: str, rowbus: CommandLine, ask: Ask) -> None:
    lay_out(ask)
    for words in ("queue create error", "delayed create Sales", "subscriptions create"):
        rowbus(*words.split())
    for own in ("Sales.Recurring", "Sales.Order"):
        ask(f'create table "{own}" (like mallory."{own}")')

    with psycopg.connect(rowbus.database) as holder:
        hold(lambda text: holder.execute(text.encode()))
        holder.execute('lock table "Sales.Delayed", "SubscriptionRouting", "Sales.Recurring", "Sales.Order"')
        holder.execute("drop table error")
        with _beside(lambda: look(rowbus, rowbus.database, name, "public")) as thread:
            thread.join(PATIENCE)
            hung = thread.is_alive()
            holder.rollback()

    assert not hung
    assert re.search(r"""(not looked at: |["'])locked""", thread.said)
    ask('drop table error, "Sales.Delayed", "SubscriptionRouting", "Sales.Recurring", "Sales.Order"')


UNNAMED = (
    "contracts export --live",
    "contracts page",
    "doctor",
    "running list --endpoint Sales",
    f"running cancel {ROW} --endpoint Sales",
    "pause",
    "pause endpoint Sales --why so",
    "resume endpoint Sales",
    "queue purge Sales --yes",
    "errors discard --all --yes",
    "errors undiscard",
    "saga's end page",
    "pauses page",
    "operations page",
    "history page",
    "overview",
)


@every("as_view", [False, True])
def test_no_table_of_a_stranger_is_taken_for_one_that_nobody_names(
    *, as_view: bool, rowbus: CommandLine, ask: Ask
) -> None:
    ask("grant create on schema public to public")
    lay_out(ask)
    for words in ("queue create Sales error", "pause endpoint Sales --why so"):
        assert rowbus(*words.split()).returncode == 0
    rowbus("errors", "discard", "--all", "--yes")  # there is nothing, but a table to keep it in
    assert look(rowbus, rowbus.database, "history page") == "''"
    publish_nothing(rowbus.database)
    ask('create table "Sales.Running" (like mallory."Sales.Running")')
    squat(ask, (*NAMED, "Sales.Running"), as_view=as_view)
    for table in ("Sales.Order", "Sales.Delayed"):
        ask(f'create table "{table}" (like mallory."{table}")')
    ask(f'alter table "Sales.Delayed" owner to {MALLORY}')

    said = {name: look(rowbus, rowbus.database, name) for name in UNNAMED}

    assert ask("select is_called from mallory.caught") == [(False,)]
    assert {name for name, text in said.items() if f"belongs to {MALLORY}" in text} >= {
        *UNNAMED[:5],
        *UNNAMED[6:12],
        "history page",
    }
    ask(f'drop owned by {MALLORY} cascade; drop table "Sales", "Sales.Order", error')


LEFT = (
    "running list",
    "running cancel 00000000-0000-0000-0000-000000000000",
    "sagas list Sales Order",
    "errors undiscard",
    "delayed cancel Sales 00000000-0000-0000-0000-000000000000",
    "delayed create Another",
    "pause",
    "resume endpoint Sales",
    "queue drop Another --yes",
    "subscriptions create",
    f"contracts check {SHOP}:sales --live",
    *("running list --endpoint Sales", f"running cancel {ROW} --endpoint Sales"),
    *(f"schema install {SHOP}:walker", f"schema verify {SHOP}:walker"),
)
"""Commands that no role needs rights for alone; the superuser's walk has them."""

LOOKING = (f"trace message {ROW}", "contracts export --live", "running list")
"""Commands that find tables by their shape, and change nothing."""

WALKED = {
    "viewer": (*READING, *LOOKING),
    "operator": (*READING, *(command for command in CHANGING if not command.startswith(("log", "ticker")))),
    "endpoint": CHANGING,
    "ticker": (*READING, "ticker --once", "log install", "log drop orders --yes --force"),
    "Spark source": READING,
    "Spark sink": READING,
    "superuser": (*COMMANDS, *LOOKING, *LEFT, "errors retry --all --to-any-queue", "metrics"),
}
"""Commands by who walks them; each also opens the pages."""


TELLING = ("queue list", "delayed list", "doctor", *LOOKING, *LEFT[-5:])
"""Commands that say what they left out, and, the first three, what is locked."""


@pytest.mark.slow  # some hundred commands
@pytest.mark.product
@pytest.mark.timeout(900)
def test_nobody_steps_into_a_trap(rowbus: CommandLine, ask: Ask) -> None:
    """All commands and pages, as each role, beside tables that run a stranger's code whatever is done with them."""
    with installed(rowbus.database) as place, psycopg.connect(rowbus.database) as holder:
        ask("grant create on schema public to public")
        prepare(place, "errors discard --all --yes --for-good")
        for words in (
            "errors discard --all --yes",
            "pause endpoint Sales --why so",
            "queue create Held",
            "delayed create Held",
        ):
            run(place.dsn, *words.split())
        look(rowbus, place.dsn, "history page")
        publish_nothing(place.dsn)
        run(place.dsn, "schema", "install", f"{SHOP}:walker")
        lay_out(ask)
        copy_all(ask)
        hold(lambda text: holder.execute(text.encode()), "Held ")
        holder.execute('lock table "Held", "Held.Delayed"')
        set_every_trap(ask)
        squat(ask, (*NAMED, *OWN))
        assert ask(KINDS) == []
        for role, commands in WALKED.items():
            for started in (CHANGING[0], "log captures"):
                prepare(place, started)
            bait(ask)
            for command in commands:
                said = _walk(place, role, command)
                assert ask("select is_called from mallory.caught") == [(False,)], (role, command, said)
                assert "statement timeout" not in said, (role, command)
                if command in TELLING and role == "superuser":
                    assert f"belongs to {MALLORY}" in said, command
                    assert "locked" in said or command in TELLING[3:], command
            for page in (*LOOKS, "contracts page"):
                if page.endswith(("page", "overview")):
                    look(rowbus, _dsn(place, role), page)
                    assert ask("select is_called from mallory.caught") == [(False,)], (role, page)
        for name in NAMED:
            ask(f'drop table "{name}"')
        ask(f"alter role current_user set rowbus.trusted_owners = {MALLORY}")
        try:
            said = _walk(place, "superuser", "errors retry --all --to-any-queue")
        finally:
            ask("alter role current_user reset rowbus.trusted_owners")
        assert ask("select is_called from mallory.caught") == [(True,)], said


def _walk(place: Installation, role: str, command: str) -> str:
    """Put everything back, have the stranger's names in it, and run a command; return what it says."""
    if command not in {*READING, "metrics"}:
        prepare(place, command)
        bait(lambda text: place.owner.execute(text.encode()))
    try:
        return run(_dsn(place, role), *command.split(), with_complaints=True)
    except (RowbusError, AssertionError) as error:
        return str(error)


def _dsn(place: Installation, role: str) -> str:
    chosen = "" if role == "superuser" else f" -c role={place.names[role]}"
    return make_conninfo(place.dsn, options=f"-c statement_timeout=5s{chosen}")


def test_the_model_says_of_every_command_and_page_which_tables_it_reads() -> None:
    section = (ROOT / "docs" / "security.md").read_text("utf-8").partition("### Whose table is it")[2]
    who = " ".join(re.findall(r"^\| (.+?) \|", section.partition("\n## ")[0], re.MULTILINE))
    named = re.findall(r"`([a-z][a-z -]*(?: …)?)`", who)
    commands = set(_commands(command_line()))

    told = {
        name: {c for c in commands if c == name or (name.endswith("…") and c.startswith(name[:-1]))}
        for name in named
    }

    assert set().union(*told.values()) == commands
    assert [name for name, found in told.items() if not found] == []
    assert [page.title for page in PAGES if page.title not in who] == []


def _commands(group: TyperGroup, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name


class _Beside(threading.Thread):
    """A look at work; `said` is what it said at its end."""

    def __init__(self, work: Callable[[], str]) -> None:
        super().__init__()
        self._work = work
        self.said = ""

    def run(self) -> None:
        self.said = self._work()


@contextmanager
def _beside(work: Callable[[], str]) -> Generator[_Beside]:
    thread = _Beside(work)
    thread.start()
    yield thread
    thread.join()


def _await_lock(ask: Ask, thread: threading.Thread) -> None:
    """Wait until a session waits for a table, or the look has ended."""
    waiting = "select 1 from pg_locks where not granted and locktype = 'relation'"
    deadline = time.monotonic() + PATIENCE
    while thread.is_alive() and not ask(waiting):
        assert time.monotonic() < deadline
        thread.join(0.01)
