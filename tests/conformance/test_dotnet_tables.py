"""The tables that our installers make beside those that .NET's made: tests/golden/dotnet/catalog/tables.json."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rowbus
from tests.conformance.endpoints import Endpoints
from tests.fixtures.dotnet_rows import ROWS

pytestmark = pytest.mark.only("PostgreSQL", reason="the tables are of PostgreSQL's transport")

TABLES = json.loads((ROWS / "catalog" / "tables.json").read_text(encoding="utf-8"))
SHAPES: dict[str, dict[str, Any]] = {shape["what"]: shape for shape in TABLES["shapes"]}

COLUMNS = """
select json_build_object('name', attname, 'type', format_type(atttypid, atttypmod), 'not_null', attnotnull,
    'default_or_generated', pg_get_expr(adbin, adrelid), 'generated', attgenerated::text,
    'identity', attidentity::text, 'storage', attstorage::text)::text
from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
"""
INDEXES = """
select json_build_object('name', relname, 'definition', pg_get_indexdef(indexrelid), 'unique', indisunique,
    'primary', indisprimary)::text
from pg_index join pg_class on pg_class.oid = indexrelid where indrelid = %s::regclass order by relname collate "C"
"""
CONSTRAINTS = """
select json_build_object('name', conname, 'type', contype::text, 'definition', pg_get_constraintdef(oid))::text
from pg_constraint where conrelid = %s::regclass and contype <> 'n' order by conname collate "C"
"""
WITH_BODY_STRING = " with CreateMessageBodyComputedColumn"
MADE = {
    "queue": "Sales",
    "delayed": "Sales.Delayed",
    "subscriptions": "SubscriptionRouting",
    f"queue{WITH_BODY_STRING}": "Sales",
    f"delayed{WITH_BODY_STRING}": "Sales.Delayed",
}


@pytest.mark.parametrize("what", MADE)
async def test_a_table_has_the_columns_indexes_and_constraints_of_dotnets(
    endpoints: Endpoints, what: str
) -> None:
    sales = endpoints.make("Sales", body_string=what.endswith(WITH_BODY_STRING))

    @sales.handler("Shop.OrderShipped", subscribe=True)
    async def take(message: dict[str, Any], context: rowbus.Context) -> None: ...

    async with sales:
        found = {
            name: [
                _told(text, MADE[what]) for text in await endpoints.backend.values(query, f'"{MADE[what]}"')
            ]
            for name, query in (("columns", COLUMNS), ("indexes", INDEXES), ("constraints", CONSTRAINTS))
        }

    recorded = {name: SHAPES[what][name] for name in found}
    for column in recorded["columns"]:
        column.pop("collation", None)
    assert found == recorded


def _told(text: str, table: str) -> dict[str, Any]:
    """Return a fact as the recorded ones are written: without quotes, placeholders for schema and table."""
    plain = text.replace('\\"', "").replace(f"public.{table}", "{schema}.{table}")
    found = json.loads(plain)
    return {
        name: value.replace(table, "{table}") if isinstance(value, str) and name != "type" else value
        for name, value in found.items()
    }
