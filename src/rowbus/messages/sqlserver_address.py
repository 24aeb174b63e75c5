"""The address of a queue on SQL Server: the catalog, the schema and the table that hold its messages.

The form on the wire is `table@[schema]@[catalog]` (docs/wire-format.md#addresses-on-sql-server). The table's name is
written as it is, so it cannot hold an `@`, and brackets in it are ordinary characters; the schema and the catalog are
in brackets, a closing one within doubled. Dots mean nothing: `Shop.Sales` is one table.

Invariant: `SqlServerAddress.parse(address.canonical) == address`, for names of any characters, and the canonical
form is character for character the one .NET endpoints write and compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple

from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX, QueueAddress, refuse_impossible, refused, shown

DEFAULT_SCHEMA: Final = "dbo"

# SQL Server's sysname: 128 UTF-16 code units. It refuses longer names instead of cutting them.
MAX_NAME_LENGTH: Final = 128


@dataclass(frozen=True, slots=True)
class SqlServerAddress(QueueAddress):
    """The catalog, schema and table of one queue, exactly as they are in the database (nothing folded or quoted).

    An empty catalog is the one a connection is in: what is borrowed from a user does not tell us its name, and who
    reads such an address takes it for one in its own catalog.

    Making one refuses only names no address can have: empty, holding NUL, a table's with an `@`. Length is *not* looked
    at, because a reply address of someone else's must be readable; `validate` checks it.
    """

    backend: ClassVar[str] = "sqlserver"

    catalog: str

    qualified: str = field(init=False, repr=False, compare=False)
    """`[catalog].[schema].[table]`, closing brackets doubled: the name in statements, and of .NET's locks."""

    def __post_init__(self) -> None:
        """Check the names and keep both written forms, which every send needs."""
        for kind, name in (("schema", self.schema), ("table", self.table)):
            refuse_impossible(kind, name)
        if self.catalog:
            refuse_impossible("catalog", self.catalog)
        if "@" in self.table:
            raise refused(self.table, "the table name holds an @, which ends the table's name in an address")
        schema, catalog = quote(self.schema), quote(self.catalog) if self.catalog else None
        object.__setattr__(self, "canonical", "@".join(filter(None, (self.table, schema, catalog))))
        object.__setattr__(self, "qualified", ".".join(filter(None, (catalog, schema, quote(self.table)))))

    def __str__(self) -> str:
        """Give the canonical form."""
        return self.canonical

    @classmethod
    def parse(
        cls, text: str, default_schema: str = DEFAULT_SCHEMA, default_catalog: str = ""
    ) -> SqlServerAddress:
        """Read an address from the wire, by the transport's rules; what it leaves out or empty is the default.

        Raises `InvalidAddressError` when no table is named. Without any catalog it is the connection's own.
        """
        table, _, rest = text.partition("@")
        if not table:
            raise refused(text, "it names no table")
        schema, rest = _next_part(rest)
        catalog = _unquote(_next_part(rest)[0]) or default_catalog
        return cls(_unquote(schema) or default_schema, table, catalog)

    @classmethod
    def from_user(
        cls, text: str, default_schema: str = DEFAULT_SCHEMA, default_catalog: str = ""
    ) -> SqlServerAddress:
        """Read an address that a person typed in Python or on the command line.

        Reads as `parse` does, but refuses with `InvalidAddressError` what a person may not have meant: the names of a
        statement (`[dbo].[Sales]`, `"dbo"."Sales"`), a bracket that is never closed, and a fourth part.
        """
        if "@" not in text and ("].[" in text or '"."' in text):
            raise refused(
                text, "that is a name as statements write it; an address is Table@[schema]@[catalog]"
            )
        _, _, rest = text.partition("@")
        for kind in ("schema", "catalog"):
            part, rest = _next_part(rest)
            if part.startswith("[") and (len(part) == 1 or part.count("]") % 2 == 0):
                raise refused(text, f"a bracket of its {kind} is not closed")
        if rest:
            raise refused(text, "it has more than three parts; write names that hold an @ in brackets")
        return cls.parse(text, default_schema, default_catalog)

    @classmethod
    def for_endpoint(
        cls,
        name: str,
        *,
        qualifier: str = "",
        discriminator: str = "",
        schema: str = DEFAULT_SCHEMA,
        catalog: str = "",
    ) -> SqlServerAddress:
        """Turn an endpoint's logical name into the address of its queue, of a satellite, or of one instance.

        The parts that are not empty are joined with dots and not parsed again: `Shop.Sales` with the qualifier
        `Delayed` is the one table `Shop.Sales.Delayed`.
        """
        return cls(schema, ".".join(filter(None, (name, qualifier, discriminator))), catalog)

    def neighbour(self, text: str) -> SqlServerAddress:
        """Read, from the wire, another address on the server of this one; raises InvalidAddressError.

        A schema or a catalog left out is this address's.
        """
        return self.parse(text, self.schema, self.catalog)

    def meant(self, text: str) -> SqlServerAddress:
        """Read an address that a person typed beside this one, whose schema and catalog are the defaults."""
        return self.from_user(text, self.schema, self.catalog)

    @property
    def folded(self) -> SqlServerAddress:
        """The same table with its name in small letters: Babelfish takes every spelling, and lists this one."""
        return replace(self, table=self.table.lower())

    def validate(self) -> None:
        """Raise `InvalidAddressError` if SQL Server would refuse the name of the table, the schema or the catalog."""
        for kind, name in (("catalog", self.catalog), ("schema", self.schema), ("queue", self.table)):
            _refuse_too_long(kind, name, MAX_NAME_LENGTH, self.canonical)

    @property
    def can_exist(self) -> bool:
        """Whether a table may have this address."""
        return all(_length(name) <= MAX_NAME_LENGTH for name in (self.catalog, self.schema, self.table))

    @property
    def creation_lock(self) -> str:
        """The application lock under which .NET's installers, and ours, create this table and add to it."""
        return f"{self.qualified}_lock"


class SqlServerAddresses(NamedTuple):
    """Makes addresses from text, with the schema and the catalog that are meant where the text names none."""

    schema: str
    catalog: str

    @property
    def backend(self) -> str:
        """SQL Server."""
        return SqlServerAddress.backend

    def parse(self, text: str) -> SqlServerAddress:
        """Read an address from the wire; see `SqlServerAddress.parse`."""
        return SqlServerAddress.parse(text, self.schema, self.catalog)

    def from_user(self, text: str) -> SqlServerAddress:
        """Read an address that a person typed; see `SqlServerAddress.from_user`."""
        return SqlServerAddress.from_user(text, self.schema, self.catalog)

    def for_endpoint(self, name: str, *, qualifier: str = "", discriminator: str = "") -> SqlServerAddress:
        """Turn an endpoint's logical name into an address; see `SqlServerAddress.for_endpoint`."""
        return SqlServerAddress.for_endpoint(
            name, qualifier=qualifier, discriminator=discriminator, schema=self.schema, catalog=self.catalog
        )

    def validate_endpoint_name(self, name: str, *, delayed_suffix: str = DEFAULT_DELAYED_SUFFIX) -> None:
        """Raise `InvalidAddressError` if an endpoint's name is empty, impossible or too long for its tables.

        Its delayed table is called `<name>.<suffix>`, so with the default suffix the name may have 120 characters. Give
        an empty suffix where delayed delivery is off: then it is 128.
        """
        refuse_impossible("endpoint", name)
        if "@" in name:
            raise refused(name, "the endpoint name holds an @, which ends the table's name in an address")
        room = _length(f".{delayed_suffix}") if delayed_suffix else 0
        _refuse_too_long("endpoint", name, MAX_NAME_LENGTH - room, name)


def quote(name: str) -> str:
    """Write a name in brackets, as a statement and an address take it."""
    return "[" + name.replace("]", "]]") + "]"


def _next_part(text: str) -> tuple[str, str]:
    """Split off the part before the next separating `@`; without one, all of it.

    A part's first character never separates. In a part that begins with a bracket an `@` separates only after an odd
    number of closing ones, for those within are doubled.
    """
    closed = not text.startswith("[")
    for position, character in enumerate(text[1:], start=1):
        if character == "@" and closed:
            return text[:position], text[position + 1 :]
        if character == "]" and text[0] == "[":
            closed = not closed
    return text, ""


def _unquote(part: str) -> str:
    if len(part) > 1 and part.startswith("[") and part.endswith("]"):
        return part[1:-1].replace("]]", "]")
    return part


def _refuse_too_long(kind: str, name: str, limit: int, address: str) -> None:
    size = _length(name)
    if size > limit:
        measured = f"the {kind} name {shown(name)} has {size} characters"
        raise refused(address, f"{measured}, and SQL Server takes at most {limit} for its tables; shorten it")


def _length(name: str) -> int:
    """Count as SQL Server does: characters outside the basic plane count twice."""
    return len(name.encode("utf-16-le")) // 2
