"""A mover of the delayed messages of Work, as `rowbus delayed move Work` runs it; the database in ROWBUS_DATABASE."""

from __future__ import annotations

import logging
import sys
from datetime import timedelta

import rowbus
from rowbus.cli.output import show_logs

if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    show_logs(logging.INFO)
    delays = rowbus.NativeDelayedDelivery(standby_delay=timedelta(milliseconds=200), batch_size=20)
    rowbus.DelayedMover("Work", settings=delays).run()
