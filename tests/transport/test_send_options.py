"""Sending is written twice, for those who await and those who block; each verb takes its options and no other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

import rowbus

SHARED = {"type", "headers", "time_to_be_received", "delay", "deliver_at"}
OF_SOME = {
    "reply_to",
    "reply_to_this_instance",
    "to_this_instance",
    "immediate",
    "new_conversation",
    "correlation_id",
    "to",
}
NONE = cast("Any", SimpleNamespace(local=None))  # who refuses looks at nothing else


def test_whoever_sends_has_one_of_two_definitions() -> None:
    public = [getattr(rowbus, name) for name in rowbus.__all__]
    senders = [kind for kind in public if isinstance(kind, type) and hasattr(kind, "send")]

    assert {inspect.unwrap(kind.send).__qualname__ for kind in senders} == {
        "AsyncSendVerbs.send",
        "SendVerbs.send",
    }


def verbs(connection: psycopg.Connection) -> Iterator[Callable[..., Any]]:
    client, endpoint = rowbus.Client(connection), rowbus.Endpoint("Sales")
    yield from (client.send, client.send_many, client.publish)
    yield from (endpoint.send, endpoint.send_local, endpoint.publish)
    for context in (rowbus.Context(NONE, NONE), rowbus.SyncContext(NONE, NONE, NONE)):
        yield from (context.send_local, context.reply)


@pytest.mark.one_version
async def test_a_verb_refuses_what_its_signature_does_not_show(database: str) -> None:
    with psycopg.connect(database) as connection:
        for verb in verbs(connection):
            parameters = inspect.signature(verb).parameters
            given: list[object] = [{} for one in parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
            for option in {*SHARED, *OF_SOME, "tpye"} - parameters.keys():
                with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
                    await awaited(verb(*given, **{option: None}))
        for no_name in (rowbus.Client, ["Shop.PlaceOrder"]):
            with pytest.raises(rowbus.InvalidHeaderError, match="give a message's name"):
                rowbus.Client(connection).send("Sales", {}, type=cast("Any", no_name))


async def awaited(answer: object) -> object:
    return await answer if inspect.isawaitable(answer) else answer
