"""XML text as elements, and nothing else that XML may hold: no DTD, so no entities but the five of XML itself.

Invariant: reading takes time linear in the text's length; a document type declaration is refused where it begins.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

MOST_NESTED: Final = 200
_NAMESPACE: Final = "}"


def parse(body: bytes) -> Element:
    """Return the message's element, names without their namespaces; raises ValueError for what is no such XML.

    That is the root, or what is in a root `Messages`, in which NServiceBus reads several messages.
    """
    builder = TreeBuilder()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError(f"its elements are nested more than {MOST_NESTED} deep")
        builder.start(_local(name), {_local(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_local(name))

    def refuse(*_: object) -> None:
        raise ValueError("it has a document type declaration, which is never read")

    parser = expat.ParserCreate(namespace_separator=_NAMESPACE)
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)  # noqa: FBT003 - expat's: this is all
    except expat.ExpatError as error:
        raise ValueError(f"it is no XML: {error}") from None
    return _message(builder.close())


def _message(root: Element) -> Element:
    if root.tag.lower() != "messages":
        return root
    if len(root) != 1:
        raise ValueError(f"it has {len(root)} messages, and can be one only")
    return root[0]


def _local(name: str) -> str:
    return name.rpartition(_NAMESPACE)[2]
