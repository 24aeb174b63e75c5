"""Alembic: operations that create queues, logs, captures and grants, and an autogenerate that leaves them alone.

```python
# Alembic's environment
context.configure(..., include_object=rowbus.sqlalchemy.migrations.include_object)

# a migration
from rowbus.sqlalchemy import migrations as bus


def upgrade() -> None:
    bus.create_endpoint("Sales")
```

On PostgreSQL. An operation runs in the migration's transaction, or is written to the script of `--sql`.

Invariant: nothing here drops what may hold messages or events.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alembic import op
from sqlalchemy import text

import rowbus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SCHEMAS: Final = frozenset({"pgq", "pgq_coop", "pgq_ext", "pgq_node", "rowbus_spark"})

_CREATED = re.compile(r"create\s+table\s+if not exists")
_COLUMNS = re.compile(r"^ {4}\"?(?!constraint |primary |unique )(\w+)", re.MULTILINE)


def _shapes() -> Iterator[set[str]]:
    """Read the columns of Rowbus's tables, and of NServiceBus's, from the files that create them."""
    for folder in ("transport", "sagas"):
        for file in (Path(rowbus.__file__).parent / folder).glob("**/sql/postgresql/create*.sql"):
            _, *made = _CREATED.split(file.read_text(), maxsplit=1)
            yield from ({name.lower() for name in _COLUMNS.findall(one.partition("\n)")[0])} for one in made)


_SHAPES: Final = tuple(_shapes())
_COLON = re.compile(r":")


def include_object(
    object: Any,  # noqa: A002, ANN401 - Alembic's signature
    _name: str | None,
    type_: str,
    reflected: bool,  # noqa: FBT001 - as above
    compare_to: object,
) -> bool:
    """Say for `context.configure(include_object=…)` whether autogenerate looks at an object: not at Rowbus's tables.

    Those are the tables in the database, and not in your metadata, that have the columns of a queue, or of another
    table of Rowbus's, under any name, and all in the schemas of logs and of Spark.
    """
    if type_ != "table" or not reflected or compare_to is not None:
        return True
    columns = {str(column.name).lower() for column in object.columns}
    own = {name for name in columns if name != "bodystring" and not name.startswith("correlation_")}
    return own not in _SHAPES and object.schema not in _SCHEMAS


def include_name(name: str | None, type_: str, _parents: object = None) -> bool:
    """Say for `context.configure(include_name=…)` whether autogenerate reads a schema: not those of logs and of Spark.

    Where `include_schemas` is set it saves reading them; `include_object` is needed in any case.
    """
    return type_ != "schema" or name not in _SCHEMAS


def create_endpoint(name: str, **options: Any) -> None:  # noqa: ANN401 - endpoint_sql's
    """Create what an endpoint needs, where it is missing; takes and raises what `rowbus.endpoint_sql` does."""
    _run(rowbus.endpoint_sql(name, **options))


def create_queue(name: str, *, schema: str | None = None) -> None:
    """Create a queue if it is missing; raises InvalidAddressError."""
    _run(rowbus.queue_sql(name, schema=schema))


def create_logs(*names: str) -> None:
    """Install the event log, or bring it up to date, and create logs; see `rowbus.log_sql`."""
    _run(rowbus.log_sql(*names))


def capture(table: str, log: str, **options: Any) -> None:  # noqa: ANN401 - capture_sql's
    """Have a table's changes written to a log; takes what `rowbus.capture_sql` does. Waits for writers of the table."""
    _run(rowbus.capture_sql(table, log, **options))


def release(table: str, log: str) -> None:
    """Stop writing a table's changes to a log; what is in the log stays."""
    _run(rowbus.release_sql(table, log))


def grant(role: str, **options: Any) -> None:  # noqa: ANN401 - grant_sql's
    """Let a role run endpoints, or send to them; takes and raises what `rowbus.grant_sql` does."""
    _run(rowbus.grant_sql(role, **options))


def grant_logs(role: str, *, write: bool = False, read: bool = False, admin: bool = False) -> None:
    """Let a role append to logs, read them, or look after them."""
    _run(rowbus.log_grant_sql(role, write=write, read=read, admin=admin))


def _run(statements: Iterable[str]) -> None:
    context = op.get_context()
    for statement in statements:
        if context.as_sql:  # as it is: Alembic would double each %
            context.impl.static_output(statement + context.impl.command_terminator)
        else:
            op.execute(text(_COLON.sub(r"\\:", statement)))  # a colon would begin a parameter
