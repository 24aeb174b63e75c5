"""Contracts in files: documents in JSON or YAML, and .NET assemblies.

Invariant: a file is read whole, and nothing in it is run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rowbus.contracts.asyncapi import from_asyncapi
from rowbus.contracts.dotnet import from_assembly
from rowbus.contracts.json_schema import from_json_schema
from rowbus.errors import ConfigurationError
from rowbus.errors.extras import require
from rowbus.messages.bodies.shape import is_object

if TYPE_CHECKING:
    from pathlib import Path

    from rowbus.contracts.contract import Contract

ASSEMBLIES: Final = frozenset({".dll", ".exe"})
_YAML: Final = frozenset({".yaml", ".yml"})
_TIMES: Final = "tag:yaml.org,2002:timestamp"


def from_file(path: Path, name: str = "") -> Contract:
    """Return the contract in a file: an AsyncAPI document, a JSON Schema of the message of a name, a .NET assembly.

    Raises MissingExtraError where it takes the extra `contracts`, ConfigurationError for what is none of them.
    """
    if path.suffix.lower() in ASSEMBLIES:
        return from_assembly(path)
    document = document_of(path)
    if is_object(document) and "asyncapi" in document:
        return from_asyncapi(document)
    return from_json_schema(document, name)


def document_of(path: Path) -> object:
    """Return what a document holds: in YAML, where its name ends so, else in JSON.

    Raises MissingExtraError for YAML without the extra `contracts`, ConfigurationError for what is neither.
    """
    if not path.is_file():
        raise ConfigurationError(f"There is no file {path}.")
    is_yaml = path.suffix.lower() in _YAML
    if is_yaml:
        _require()
    try:
        text = path.read_text(encoding="utf-8")
        return _from_yaml(text) if is_yaml else json.loads(text)
    except (OSError, ValueError, RecursionError):
        raise ConfigurationError(f"{path} is no {'YAML' if is_yaml else 'JSON'} document.") from None


def to_yaml(document: object) -> str:
    """Return a document in YAML; raises MissingExtraError without the extra `contracts`."""
    _require()
    import yaml  # noqa: PLC0415 - an extra

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def _require() -> None:
    require("contracts", "yaml", what="YAML")


def _from_yaml(text: str) -> object:
    """Decode YAML with the types of JSON: what looks like a time is text. Raises ValueError for what is no YAML."""
    import yaml  # noqa: PLC0415 - an extra

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: Any = {  # noqa: RUF012 - as its base has it
            first: [(tag, form) for tag, form in known if tag != _TIMES]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        return yaml.load(text, Loader)  # noqa: S506 - it makes no objects
    except yaml.YAMLError:
        raise ValueError("no YAML") from None
