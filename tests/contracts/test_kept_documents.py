"""The document of the demo is kept, and is what its code says."""

from __future__ import annotations

import json

from rowbus import contracts
from rowbus.demo import billing, sales, shipping
from tests.fixtures.places import ROOT


def test_the_document_of_the_demo_is_what_its_code_says() -> None:
    kept = json.loads((ROOT / "src" / "rowbus" / "demo" / "asyncapi.json").read_text(encoding="utf-8"))
    found = contracts.describe(sales.endpoint, billing.endpoint, shipping.endpoint, title="Shop")

    assert kept == contracts.to_asyncapi(found), (
        "write it anew: rowbus contracts export --title Shop rowbus.demo.sales:endpoint "
        "rowbus.demo.billing:endpoint rowbus.demo.shipping:endpoint > src/rowbus/demo/asyncapi.json"
    )
