"""Many small messages: sent by COPY, received a hundred to a transaction.

A gateway sends ten thousand readings of sensors at once; an endpoint adds them up.

Prints:

    sent 10000
    sensor 0: 2500 readings, 24.0 on average
    sensor 1: 2500 readings, 25.0 on average
    sensor 2: 2500 readings, 26.0 on average
    sensor 3: 2500 readings, 27.0 on average
"""

from __future__ import annotations

import asyncio

import msgspec
import psycopg

import rowbus
from rowbus.testing import temporary_database

COUNT = 10_000


@rowbus.message("Plant.Reading")
class Reading(msgspec.Struct):
    """Sent to Averages."""

    sensor: int
    value: float


averages = rowbus.Endpoint("Averages", settings=rowbus.EndpointSettings(batch_size=100))
recorded = asyncio.Semaphore(0)


@averages.handler
async def record(reading: Reading, context: rowbus.Context) -> None:
    """Record one reading; a hundred of these calls share a transaction."""
    await context.connection.execute("insert into readings values (%s, %s)", (reading.sensor, reading.value))
    recorded.release()


async def main(dsn: str) -> None:
    """Send, serve until all are recorded, and ask for the averages."""
    averages.database = dsn
    await averages.install()
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("create unlogged table readings (sensor int, value float)")
        readings = (Reading(number % 4, 20 + number % 4 + number // 4 % 9) for number in range(COUNT))
        print("sent", await rowbus.AsyncClient(connection).send_many("Averages", readings))
        async with averages:
            for _ in range(COUNT):
                await recorded.acquire()
        query = "select sensor, count(*), avg(value) from readings group by sensor order by sensor"
        async for sensor, count, average in await connection.execute(query):
            print(f"sensor {sensor}: {count} readings, {average:.1f} on average")


if __name__ == "__main__":
    with temporary_database() as temporary:
        asyncio.run(main(temporary))
