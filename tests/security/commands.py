"""Commands that each role can run to the end, tried with the real command line.

Invariant: before each command everything is there that it could work on, so that what fails, fails for want of rights;
what fails for another reason is not taken for that.
"""

from __future__ import annotations

from rowbus.errors import RowbusError
from tests.security import catalogue
from tests.security.installation import ROLES, Installation, run

ROW = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
READING = (
    "queue list",
    "queue peek Sales",
    "contracts python queue:Sales",
    "errors list",
    f"errors show {ROW}",
    "delayed list",
    "delayed list Sales",
    "recurring list Sales",
    "subscriptions list",
    "schema verify --queue Sales",
    "doctor",
    "log list",
    "log consumers",
    "log captures",
    "log read orders",
    "log dead-letters list orders books",
    "schema verify --log",
    "log grants",
)
CHANGING = (
    "queue create Another",
    "queue send Sales {} --type Shop.PlaceOrder",
    "queue purge Sales --yes",
    "errors retry --all",
    "errors discard --all --yes --for-good",
    "subscriptions add Sales Shop.Another",
    "subscriptions remove Sales --all",
    "delayed move Sales --once",
    "recurring remove Sales hourly",
    "log append orders {} --type order",
    "log rewind orders books --to start",
    "log unregister orders books",
    "log dead-letters replay orders books",
    "log dead-letters purge orders books --yes",
    "log create another",
    "log config orders max_retries=3",
    "log drop orders --yes --force",
    "log install",
    "log grants --style new",
    "ticker --once",
)
COMMANDS = (*READING, *CHANGING)
WANT_OF_RIGHTS = (
    "permission denied",
    "there is no table of delayed messages",  # that the role may see
)

TRANSPORT = """
    drop table if exists "Another";
    delete from "Sales"; delete from error; delete from "Sales.Delayed"; delete from "SubscriptionRouting";
    delete from "Sales.Recurring";
    insert into "Sales.Recurring" (name, schedule, next_due) values ('hourly', 'every 1:00:00', now());
    insert into "Sales" (id, headers, body) values (
        gen_random_uuid(), '{"NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder"}', '{"order_id": 1}');
    insert into error (id, headers, body) values (
        '6f9619ff-8b86-d011-b42d-00c04fc964ff', '{"NServiceBus.FailedQ": "\\"public\\".\\"Sales\\""}', '{}');
    insert into "Sales.Delayed" (headers, body, due) values ('{}', '{}', now() + interval '1 day');
    insert into "SubscriptionRouting" (queueaddress, endpoint, topic) values ('"public"."Sales"', 'Sales', 'Shop.Event')
"""
LOG = (
    "drop table if exists sale; create table sale (id int primary key)",
    "do $$ begin perform pgq.drop_queue(queue_name, true) from pgq.queue; end $$",
    """
    do $$ begin
        perform pgq.create_queue('orders');
        perform pgq.register_consumer('orders', 'books');
    end $$
    """,
    "select pgq.insert_event('orders', 'order', '{}')",
    "select pgq.force_tick('orders')",
    "select pgq.ticker('orders')",
    """
    do $$ declare v_batch bigint := pgq.next_batch('orders', 'books'); begin
        perform pgq.events_dead(v_batch, array_agg(ev_id), array['no good']) from pgq.get_batch_events(v_batch);
        perform pgq.finish_batch(v_batch);
    end $$
    """,
)


def prepare(place: Installation, command: str) -> None:
    """Put everything back that a command works on."""
    for statement in LOG if command.startswith(("log", "ticker")) else (TRANSPORT,):
        place.owner.execute(statement.encode())
    if command in READING:
        run(place.dsn, "log", "capture", "sale", "--log", "orders")


def outcomes(place: Installation, role: str) -> dict[str, str]:
    """Run every command as a role; an empty text: it did its work, else what it said."""
    prepare(place, CHANGING[0])
    prepare(place, "log captures")
    found = {command: _outcome(place, role, command) for command in READING}
    for command in CHANGING:
        prepare(place, command)
        found[command] = _outcome(place, role, command)
    return found


def _outcome(place: Installation, role: str, command: str) -> str:
    try:
        run(place.dsn_of(role), *command.split())
    except (RowbusError, AssertionError) as error:
        if not any(said in str(error) for said in WANT_OF_RIGHTS):
            raise
        return str(error)
    return ""


def table(found: dict[str, dict[str, str]]) -> str:
    """Return the part of docs/privileges.md about commands; what was found by role and command."""
    rows = [
        (f"rowbus {command}", ["" if found[role][command] else "yes" for role in ROLES])
        for command in COMMANDS
    ]
    intro = "`yes`: the command does its work. Else it fails and changes nothing."
    return f"## Commands\n\n{intro}\n\n{catalogue.table(rows)}"


def allowed(page: str, role: str) -> set[str]:
    """Return the commands that a page says a role can run."""
    column = list(ROLES).index(role)
    found = set[str]()
    for line in page.splitlines():
        names, *cells = line[1:-1].split("|")
        if line.startswith("| `rowbus ") and cells[column].strip() == "yes":
            found |= {name.strip(" `").removeprefix("rowbus ") for name in names.split("<br>")} & set(
                COMMANDS
            )
    return found
