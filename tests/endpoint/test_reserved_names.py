"""Names of ServiceControl's queues: no endpoint may have them, for it would take ServiceControl's messages."""

from __future__ import annotations

import pytest

import rowbus
from rowbus.errors import ConfigurationError
from tests.fixtures.every import every


@every(
    "name",
    [
        "Particular.ServiceControl",
        "Particular.ServiceControl.Errors",
        "Particular.ServiceControl.staging",
        "Particular.ServiceControl.Audit",
        "Particular.ServiceControl.Audit.Errors",
        "particular.monitoring",
        "ServiceControl.ThroughputData",
        "error",
        "audit",
        "error.log",
        "audit.log",
    ],
)
@every("database", ["host=nowhere", "mssql://nobody:secret@nowhere/shop"])
def test_an_endpoint_cannot_be_named_as_a_queue_of_servicecontrol(name: str, database: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} cannot name an endpoint: ServiceControl"):
        rowbus.Endpoint(name, database=database)


def test_names_that_only_begin_alike_are_allowed() -> None:
    for name in ("Particular.Shop", "errors", "Shop.error"):
        assert rowbus.Endpoint(name, database="host=nowhere").name == name
