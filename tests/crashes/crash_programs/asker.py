"""An asker for the crash tests: says that it waits, and waits for an answer that does not come.

With the database in ROWBUS_DATABASE, in which there is the queue Billing.
"""

from __future__ import annotations

import asyncio
import sys

import rowbus


async def main() -> None:
    """Ask, and wait."""
    async with rowbus.AsyncRequestClient("Web") as client:
        sys.stdout.write("waits\n")
        sys.stdout.flush()
        await client.request("Billing", {"Sku": "A1"}, dict, type="Shop.Quote", timeout=600)


if __name__ == "__main__":
    asyncio.run(main())
