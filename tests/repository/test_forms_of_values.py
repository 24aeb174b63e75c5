"""The table of value forms in the how-to is made from bodies that .NET wrote, and lies between its two headings.

Run with ROWBUS_TEST_ACCEPT=1 to write it anew.
"""

from __future__ import annotations

import os
import re
from xml.sax.saxutils import unescape

from tests.fixtures.dotnet_rows import rows
from tests.fixtures.places import ROOT

PAGE = ROOT / "docs" / "how-to" / "messages-and-types.md"
TABLE = re.compile(r"(<!-- table of forms -->\n)(.*?)(?=\nRead, too:)", re.DOTALL)

SHOWN = {
    "Text": ("`str`", "string, char, Uri"),
    "Yes": ("`bool`", "bool"),
    "LongMax": ("`int`", "byte … ulong"),
    "Whole": ("`float`", "double, float"),
    "TrailingZeros": ("`Decimal`", "decimal"),
    "WholeDecimal": ("`Decimal`", "decimal"),
    "Utc": ("`datetime`, UTC", "DateTime of kind Utc"),
    "Unspecified": ("`datetime`, naive", "DateTime of kind Unspecified"),
    "Offset": ("`datetime` with its zone", "DateTimeOffset"),
    "SpanDays": ("`timedelta`", "TimeSpan"),
    "SpanFraction": ("`timedelta`", "TimeSpan"),
    "Guid": ("`UUID`", "Guid"),
    "Colour": ("`IntEnum`, `rowbus.OpenEnum`", "enum"),
    "Days": ("`IntFlag`", "enum with [Flags]"),
    "Bytes": ("`bytes`", "byte[]"),
    "NullText": ("`str \\| None`", "string that is null"),
    "NullInt": ("`int \\| None`", "int? that is null"),
    "Numbers": ("`list[int]`, `set`, `tuple`", "List, HashSet, array"),
    "Stock": ("`dict[str, int]`", "Dictionary"),
    "Nested": ("dataclass, struct, model", "class, record"),
}


def body_of(name: str) -> str:
    return (rows(name)[0].body or b"").decode("utf-8-sig")


def in_json(body: str, name: str) -> str:
    """Return the text of a property, as it stands in the body."""
    found = re.search(rf'"{name}":(\[[^\]]*\]|\{{[^}}]*\}}|"(?:[^"\\]|\\.)*"|[^,}}]+)', body)
    assert found, name
    return found[1]


def in_xml(body: str, name: str) -> str:
    found = re.search(rf"<{name}(?: [^>]*)?>.*?</{name}>", body, re.DOTALL)
    return "left out" if found is None else f"`{unescape(found[0])}`"


def table() -> str:
    stj, newtonsoft, xml = map(body_of, ("common-systemjson", "common-newtonsoft", "types-xml"))
    lines = ["| Python | C# | System.Text.Json | Newtonsoft | XML |", "| --- | --- | --- | --- | --- |"]
    for name, (python, csharp) in SHOWN.items():
        forms = f"`{in_json(stj, name)}` | `{in_json(newtonsoft, name)}` | {in_xml(xml, name)}"
        lines.append(f"| {python} | {csharp} | {forms} |")
    return "\n" + "\n".join(lines) + "\n"


def test_the_table_of_forms_is_made_from_what_dotnet_wrote() -> None:
    page = PAGE.read_text(encoding="utf-8")
    made = TABLE.sub(lambda found: found[1] + table(), page)
    if os.environ.get("ROWBUS_TEST_ACCEPT"):
        PAGE.write_text(made, encoding="utf-8")
    else:
        assert page == made
