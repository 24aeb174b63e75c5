"""Contracts: what endpoints take, send and publish, for every language; and who breaks whom, before it runs.

`describe` reads a contract from endpoints, `from_file` from a document or a .NET assembly, `infer` from messages that
were seen; `to_asyncapi` and `from_asyncapi` write and read it as an AsyncAPI document;
`misfits` says what in a body does not fit, `compare` what a change breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.running.lazy_names import lazy_names

if TYPE_CHECKING:
    from rowbus.contracts.asyncapi import from_asyncapi, to_asyncapi
    from rowbus.contracts.comparison import Break, compare
    from rowbus.contracts.contract import Action, Contract, LogReader, Message, Party, Use
    from rowbus.contracts.csharp import to_csharp
    from rowbus.contracts.describing import describe
    from rowbus.contracts.dotnet import from_assembly
    from rowbus.contracts.files import from_file
    from rowbus.contracts.fit import Misfit, misfits
    from rowbus.contracts.inferring import SeenMessage, infer
    from rowbus.contracts.json_schema import from_json_schema
    from rowbus.contracts.map import merge, to_svg
    from rowbus.contracts.python_classes import to_python

__all__ = [
    "Action",
    "Break",
    "Contract",
    "LogReader",
    "Message",
    "Misfit",
    "Party",
    "SeenMessage",
    "Use",
    "compare",
    "describe",
    "from_assembly",
    "from_asyncapi",
    "from_file",
    "from_json_schema",
    "infer",
    "merge",
    "misfits",
    "to_asyncapi",
    "to_csharp",
    "to_python",
    "to_svg",
]

_MODULES = {
    "Action": "contract",
    "Break": "comparison",
    "Contract": "contract",
    "LogReader": "contract",
    "Message": "contract",
    "Misfit": "fit",
    "Party": "contract",
    "SeenMessage": "inferring",
    "Use": "contract",
    "compare": "comparison",
    "describe": "describing",
    "from_assembly": "dotnet",
    "from_asyncapi": "asyncapi",
    "from_file": "files",
    "from_json_schema": "json_schema",
    "infer": "inferring",
    "merge": "map",
    "misfits": "fit",
    "to_asyncapi": "asyncapi",
    "to_csharp": "csharp",
    "to_python": "python_classes",
    "to_svg": "map",
}


__getattr__ = lazy_names(__name__, _MODULES)  # an endpoint that starts needs few of them
