"""The settings of an endpoint as keyword arguments of helpers."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict

from rowbus.platform.servicecontrol import Platform
from rowbus.settings import Allowed, FailureHandling, TransactionMode


class Settings(TypedDict, total=False):
    """Those fields of `EndpointSettings` that tests set."""

    schema: str
    error_queue: str
    audit_queue: str | None
    audit_time_to_be_received: timedelta | None
    throttle_after_failures: int | None
    throttle_delay: timedelta
    subscription_table: str
    subscription_cache: timedelta
    auto_subscribe: bool
    discriminator: str
    host_id: str | None
    queue: str | None
    host_name: str | None
    host_display_name: str | None
    transaction_mode: TransactionMode
    deduplicate_for: timedelta | None
    concurrency: int
    keep_tasks: bool
    time_limit: timedelta | None
    long_concurrency: int
    long_lease: timedelta
    batch_size: int | Literal["auto"]
    allowed_destinations: Allowed
    max_message_size: int
    failure_handling: FailureHandling
    peek_delay: timedelta
    max_records_to_peek: int | None
    notifications: bool
    foreign_notifications: bool
    body_string: bool
    install: bool
    takes_unique: bool
    purge_on_startup: bool
    service_platform: Platform | None
    time_to_trigger_circuit_breaker: timedelta
