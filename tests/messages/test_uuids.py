"""Random identifiers: version 4 UUIDs, none of them twice."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from rowbus.messages.message import random_uuid_texts
from tests.fixtures.every import every


@every("count", [0, 1, 300])
def test_so_many_random_uuids_are_made(count: int) -> None:
    made = [UUID(text) for text in random_uuid_texts(count)]

    assert len(set(made)) == count
    assert all(each.version == 4 and each.variant == RFC_4122 for each in made)
