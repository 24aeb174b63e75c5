"""Failed messages in Django's admin: who may see them, who may retry them, and that a retry is one."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client

import rowbus
import rowbus.django
from rowbus.django import failures

pytestmark = pytest.mark.one_version

PAGE = "/admin/rowbus/failedmessage/"
INSERT = "insert into shop.error (id, headers, body) values (gen_random_uuid(), %s, %s) returning id"


@pytest.fixture(autouse=True)
def _endpoint_of_the_project(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one endpoint, its queues, and Django's tables."""
    sales = rowbus.django.Endpoint("Sales", settings=rowbus.EndpointSettings(schema="shop"))
    monkeypatch.setattr(failures, "endpoints", lambda: {"shop.endpoints:sales": sales})
    with psycopg.connect(database) as connection:
        connection.execute("create schema shop")
        for statement in rowbus.endpoint_sql("Sales", schema="shop"):
            connection.execute(statement.encode())
    call_command("migrate", verbosity=0)


def failed(database: str, reason: str = "no", queue: str = '"shop"."Sales"') -> str:
    """Put a message into the error queue, and return its row's id."""
    headers = {
        "NServiceBus.MessageId": f"id of {reason}",
        "NServiceBus.FailedQ": queue,
        "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder",
        "NServiceBus.ExceptionInfo.ExceptionType": "ValueError",
        "NServiceBus.ExceptionInfo.Message": reason,
    }
    with psycopg.connect(database) as connection:
        ((row_id,),) = connection.execute(INSERT, [json.dumps(headers), b"{}"]).fetchall()
    return str(row_id)


def count(database: str, table: str) -> int:
    with psycopg.connect(database) as connection:
        ((number,),) = connection.execute(f'select count(*) from shop."{table}"'.encode()).fetchall()
    return int(number)


def browser(*permissions: str) -> Client:
    """Return the browser of somebody who works in the admin with these permissions."""
    user = User.objects.create_user("operator", password="secret", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(enforce_csrf_checks=False)
    client.force_login(user)
    return client


def texts(client: Client) -> str:
    return client.get(PAGE).content.decode()


def test_who_may_view_sees_failed_messages_and_nothing_to_press(database: str) -> None:
    row = failed(database, "<b>no such article</b>")
    client = browser("view_failedmessage")

    page = texts(client)

    assert "&lt;b&gt;no such article&lt;/b&gt;" in page
    assert "ValueError" in page
    assert "Shop.PlaceOrder" in page
    assert "Retry the selected messages" not in page
    assert client.post(PAGE, {"queue": 'default "shop"."error"', "id": row}).status_code == 403
    assert count(database, "error") == 1


def test_who_may_not_view_is_refused() -> None:
    assert browser().get(PAGE).status_code == 403
    assert Client().get(PAGE).status_code == 302, "to the login"


def test_retry_without_the_permission_to_view_is_refused(database: str) -> None:
    row = failed(database)

    done = browser("retry_failedmessage").post(PAGE, {"queue": 'default "shop"."error"', "id": row})

    assert done.status_code == 403
    assert count(database, "error") == 1


def test_the_selected_messages_go_back_and_the_history_says_who_sent_them(database: str) -> None:
    first, _second = failed(database, "one"), failed(database, "two")
    client = browser("view_failedmessage", "retry_failedmessage")

    done = client.post(PAGE, {"queue": 'default "shop"."error"', "id": first}, follow=True)

    assert "Sent 1 message back to &quot;shop&quot;.&quot;Sales&quot;." in done.content.decode()
    assert (count(database, "Sales"), count(database, "error")) == (1, 1)
    entry = LogEntry.objects.get()
    user: Any = entry.user
    assert (user.username, entry.object_repr) == ("operator", 'default "shop"."error"')
    assert 'Sent 1 message back to "shop"."Sales".' in entry.get_change_message()


def test_what_cannot_go_back_stays_and_the_page_says_why(database: str) -> None:
    elsewhere = failed(database, queue='"public"."Sales"')
    client = browser("view_failedmessage", "retry_failedmessage")
    gone = "00000000-0000-0000-0000-000000000000"

    done = client.post(PAGE, {"queue": 'default "shop"."error"', "id": [elsewhere, gone]}, follow=True)

    page = done.content.decode()
    assert "1 message stayed: failed in" in page
    assert "1 message had left the error queue already." in page
    assert count(database, "error") == 1


def test_no_other_queue_than_the_projects_can_be_retried(database: str) -> None:
    client = browser("view_failedmessage", "retry_failedmessage")

    assert client.post(PAGE, {"queue": 'default "shop"."Sales"', "id": "1"}).status_code == 403


def test_a_queue_that_is_not_there_yet_is_named(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("drop table shop.error")

    page = texts(browser("view_failedmessage"))

    assert "does not exist" in page


def test_a_forged_post_is_refused(database: str) -> None:
    row = failed(database)
    client = browser("view_failedmessage", "retry_failedmessage")
    client.handler.enforce_csrf_checks = True

    assert client.post(PAGE, {"queue": 'default "shop"."error"', "id": row}).status_code == 403


def test_projects_get_no_migration_of_ours_to_make(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("makemigrations", check=True, dry_run=True)

    assert "No changes detected" in capsys.readouterr().out
    assert not apps.get_model("rowbus", "FailedMessage")._meta.managed
