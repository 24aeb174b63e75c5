"""The schema of a measurement: nobody else's, and dropped."""

from __future__ import annotations

from typing import cast

import pytest

from rowbus.bench.place import new_name, place_of_its_own
from rowbus.database.backends import addresses_of, open_database
from rowbus.errors import AlreadyThereError, StorageError
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import ServerFacts
from tests.fixtures.command_line import Ask, as_role

pytestmark = pytest.mark.one_version


@pytest.fixture
def server(database: str) -> ServerFacts:
    """Give what is known of the server."""
    with open_database(database).session() as session:
        return cast("ServerFacts", session.run(catalog_of(addresses_of(database)).server()))


def schemas(ask: Ask, name: str) -> list[tuple[int]]:
    return ask("select 1 from pg_namespace where nspname = %s", [name])


def test_a_schema_that_was_there_is_neither_used_nor_dropped(
    database: str, server: ServerFacts, ask: Ask
) -> None:
    ask("create schema shop")

    with pytest.raises(AlreadyThereError), place_of_its_own(database, "shop", server):
        pytest.fail("it was used")

    assert schemas(ask, "shop")


def test_a_schema_is_dropped_after_an_error(database: str, server: ServerFacts, ask: Ask) -> None:
    name = new_name()

    with pytest.raises(ZeroDivisionError), place_of_its_own(database, name, server):
        raise ZeroDivisionError

    assert not schemas(ask, name)


def test_a_schema_that_cannot_be_dropped_is_named_with_what_to_run(
    database: str, server: ServerFacts, ask: Ask, role: str
) -> None:
    name = new_name()
    ask(f'grant create on database "{server.database}" to {role}')

    with (
        pytest.raises(StorageError, match="The schema of the measurement is left; drop it: ") as caught,
        place_of_its_own(as_role(database, role), name, server),
    ):
        ask(f"alter schema {name} owner to current_user")

    ask(str(caught.value).partition("drop it: ")[2])
    assert not schemas(ask, name)
