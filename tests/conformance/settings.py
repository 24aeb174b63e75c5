"""The settings of an endpoint as keyword arguments of helpers."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from rowbus.settings import FailureHandling, TransactionMode


class Settings(TypedDict, total=False):
    """Those fields of `EndpointSettings` that tests set."""

    schema: str
    error_queue: str
    discriminator: str
    transaction_mode: TransactionMode
    concurrency: int
    batch_size: int
    failure_handling: FailureHandling
    peek_delay: timedelta
    max_records_to_peek: int | None
    notifications: bool
    foreign_notifications: bool
    install: bool
    purge_on_startup: bool
    time_to_trigger_circuit_breaker: timedelta
