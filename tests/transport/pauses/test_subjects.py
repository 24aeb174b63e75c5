"""Names that a person gives to be paused are read alike on the command line and on the page."""

from __future__ import annotations

import pytest

from rowbus.errors import ConfigurationError
from rowbus.messages.address import PostgresAddresses
from rowbus.transport.pauses.table import PauseKind, subject_of
from tests.fixtures.every import every


@every(
    "kind, name",
    [("queue", ""), ("endpoint", "a\0b"), ("consumer", "books"), ("recurring", "remind")],
)
def test_a_name_that_cannot_be_meant_is_refused(kind: str, name: str) -> None:
    with pytest.raises(ConfigurationError):
        subject_of(PauseKind(kind), name, PostgresAddresses("public"))


def test_a_queue_is_paused_by_its_address_and_others_by_their_names() -> None:
    addresses = PostgresAddresses("shop")

    assert subject_of(PauseKind.QUEUE, "Sales", addresses) == ("queue", '"shop"."Sales"')
    assert subject_of(PauseKind.CONSUMER, "orders/books", addresses) == ("consumer", "orders/books")
