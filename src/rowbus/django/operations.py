"""Operations of Django's migrations: endpoints' tables, queues, logs, captured tables and grants.

Invariant: an operation touches no model's state and runs in the migration's transaction; going back drops nothing that
may hold messages or events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.migrations.operations import RunSQL

import rowbus

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Statements(RunSQL):
    """Statements of Rowbus's; a migration names the operation and its arguments, not the SQL."""

    def __init__(self, sql: list[str], back: list[str], *given: object, **options: object) -> None:
        super().__init__(_without_parameters(sql), _without_parameters(back))
        self._given = given, options

    def deconstruct(self) -> tuple[str, Any, Any]:
        """Return what a squashed migration writes."""
        return (self.__class__.__qualname__, list(self._given[0]), dict(self._given[1]))

    def describe(self) -> str:
        """Return what `migrate --plan` shows."""
        return f"{type(self).__name__} {', '.join(map(str, self._given[0]))}"


class CreateEndpoint(_Statements):
    """Create what an endpoint needs, where it is missing: see `rowbus.endpoint_sql`. Going back leaves it."""

    def __init__(
        self,
        name: str,
        *,
        schema: str | None = None,
        error_queue: str = "error",
        subscription_table: str = "SubscriptionRouting",
    ) -> None:
        """Take what `rowbus.endpoint_sql` takes; raises as it does."""
        names = {"schema": schema, "error_queue": error_queue, "subscription_table": subscription_table}
        sql = rowbus.endpoint_sql(
            name, schema=schema, error_queue=error_queue, subscription_table=subscription_table
        )
        super().__init__(sql, [], name, **names)


class CreateQueue(_Statements):
    """Create a queue if it is missing: see `rowbus.queue_sql`. Going back leaves it."""

    def __init__(self, name: str, *, schema: str | None = None) -> None:
        """Take what `rowbus.queue_sql` takes; raises as it does."""
        super().__init__(rowbus.queue_sql(name, schema=schema), [], name, schema=schema)


class CreateLogs(_Statements):
    """Install the event log, or bring it up to date, and create logs: see `rowbus.log_sql`. Going back leaves them."""

    def __init__(self, names: Sequence[str]) -> None:
        """Take the logs' names."""
        super().__init__(rowbus.log_sql(*names), [], list(names))


class CaptureTable(_Statements):
    """Have a table's changes written to a log: see `rowbus.capture_sql`. Going back stops that."""

    def __init__(
        self,
        table: str,
        log: str,
        *,
        form: str = "json",
        arguments: Sequence[str] = (),
        trigger: str | None = None,
    ) -> None:
        """Take what `rowbus.capture_sql` takes."""
        sql = rowbus.capture_sql(table, log, form=form, arguments=arguments, trigger=trigger)
        given = {"form": form, "arguments": list(arguments), "trigger": trigger}
        super().__init__(sql, rowbus.release_sql(table, log), table, log, **given)


class GrantEndpoints(_Statements):
    """Let a role run endpoints, or send to them: see `rowbus.grant_sql`. Going back leaves the grants."""

    def __init__(
        self,
        role: str,
        *,
        receive: Sequence[str] = (),
        send: Sequence[str] = (),
        schema: str | None = None,
        error_queue: str = "error",
        subscription_table: str = "SubscriptionRouting",
    ) -> None:
        """Take what `rowbus.grant_sql` takes; raises as it does."""
        names = {"schema": schema, "error_queue": error_queue, "subscription_table": subscription_table}
        sql = rowbus.grant_sql(
            role,
            receive=receive,
            send=send,
            schema=schema,
            error_queue=error_queue,
            subscription_table=subscription_table,
        )
        super().__init__(sql, [], role, receive=list(receive), send=list(send), **names)


class GrantLogs(_Statements):
    """Let a role use the logs: see `rowbus.log_grant_sql`. Going back leaves the grants."""

    def __init__(self, role: str, *, write: bool = False, read: bool = False, admin: bool = False) -> None:
        """Take what `rowbus.log_grant_sql` takes."""
        sql = rowbus.log_grant_sql(role, write=write, read=read, admin=admin)
        super().__init__(sql, [], role, write=write, read=read, admin=admin)


def _without_parameters(sql: list[str]) -> list[Any]:
    """Return statements as RunSQL takes those that are not to be split, with no placeholder in them."""
    return [(statement, None) for statement in sql]
