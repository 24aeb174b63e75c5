"""Memory that a message with a large value takes, in a process of its own: prints a figure a line.

`measured.py MEGABYTES`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from dataclasses import dataclass

import psycopg

import rowbus

MEGABYTE = 1024 * 1024


@rowbus.command("Shop.Messages.SendInvoice", rename="pascal")
@dataclass
class SendInvoice:
    order_id: str
    scan: bytes


def peak() -> int:
    """Return how much memory this process has had at most, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(size: int) -> None:
    """Send a value, receive it, then send and receive a hundredth part of it a hundred times."""
    settings = rowbus.EndpointSettings(max_message_size=2 * size)  # it is sent in base64
    invoices, done = rowbus.Endpoint("Invoices", settings=settings), asyncio.Event()
    check = invoices.use(rowbus.ClaimCheck(properties={SendInvoice: ["Scan"]}))

    @invoices.handler
    async def invoice(message: SendInvoice) -> None:
        if message.order_id == "last":
            assert message.scan.endswith(b"end")
            done.set()

    async with invoices:
        start = peak()
        await invoices.send_local(SendInvoice("last", b"\0" * (size - 3) + b"end"))
        await done.wait()
        sys.stdout.write(f"{(peak() - start) / size}\n")
        one = peak()
        with psycopg.connect(rowbus.resolve_dsn()) as connection:
            many = (SendInvoice(str(number), bytes(size // 20)) for number in range(100))
            rowbus.Client(connection, mutators=[check]).send_many("Invoices", many)
        sys.stdout.write(f"{(peak() - one) / size}\n")


asyncio.run(main(int(sys.argv[1]) * MEGABYTE))
