"""A ticker for the log's crash tests, which rotates and moves retries as often as it can."""

from __future__ import annotations

import logging
from datetime import timedelta

import rowbus
from rowbus.cli.output import show_logs

if __name__ == "__main__":
    show_logs(logging.INFO)
    settings = rowbus.TickerSettings(
        tick_period=timedelta(milliseconds=20),
        standby_delay=timedelta(milliseconds=100),
        retry_delay=timedelta(milliseconds=100),
        maintenance_period=timedelta(milliseconds=300),
    )
    rowbus.Ticker(settings=settings).run()
