"""The documents of the demo and of the two example projects are kept, and are what their code says."""

from __future__ import annotations

import json
import shutil

import httpx
import pytest
from fastapi import FastAPI

from rowbus import contracts
from rowbus.demo import billing, sales, shipping
from tests.contracts import shop
from tests.fixtures.command_line import CommandLine
from tests.fixtures.places import ROOT

MANAGE = "import runpy; runpy.run_path('manage.py', run_name='__main__')"
CHECK = ("contracts", "export", "--check", "asyncapi.json")


def test_the_document_of_the_demo_is_what_its_code_says() -> None:
    kept = json.loads((ROOT / "src" / "rowbus" / "demo" / "asyncapi.json").read_text(encoding="utf-8"))
    found = contracts.describe(sales.endpoint, billing.endpoint, shipping.endpoint, title="Shop")

    assert kept == contracts.to_asyncapi(found), (
        "write it anew: rowbus contracts export --title Shop rowbus.demo.sales:endpoint "
        "rowbus.demo.billing:endpoint rowbus.demo.shipping:endpoint > src/rowbus/demo/asyncapi.json"
    )


@pytest.mark.one_version
def test_the_document_of_the_shop_is_what_its_code_says(rowbus: CommandLine) -> None:
    shutil.copytree(ROOT / "examples" / "shop", rowbus.folder, dirs_exist_ok=True)

    done = rowbus(*CHECK, "shop")
    assert done.returncode == 0, done.stderr


@pytest.mark.one_version
def test_a_management_command_of_django_writes_the_document_of_a_project(rowbus: CommandLine) -> None:
    shutil.copytree(ROOT / "examples" / "django_shop", rowbus.folder, dirs_exist_ok=True)

    checking = rowbus.start_python(MANAGE, "rowbus", *CHECK, "orders.endpoints")
    checking.wait_for(r"^asyncapi\.json is up to date\.$")
    assert checking.wait() == 0


async def test_fastapi_shows_both_documents_by_three_lines() -> None:
    app = FastAPI()

    @app.get("/asyncapi.json", include_in_schema=False)
    async def messages() -> dict[str, object]:
        return contracts.to_asyncapi(contracts.describe(shop.sales))

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        served, rest = await client.get("/asyncapi.json"), await client.get("/openapi.json")
    assert contracts.from_asyncapi(served.json()) == contracts.describe(shop.sales)
    assert "openapi" in rest.json()
