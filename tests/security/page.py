"""docs/privileges.md: `make privileges` writes it, test_privileges.py compares it with installations."""

from __future__ import annotations

from rowbus.testing import temporary_database
from tests.fixtures.places import ROOT
from tests.security import catalogue, commands
from tests.security.installation import ROLES, Installation, installed

PAGE = ROOT / "docs" / "privileges.md"
INTRO = """<!-- Written by `make privileges` from a fresh installation; change the code. -->

# Privileges

What each role may do in a fresh installation, as the server itself says. [Security](security.md) says what it means:
who is trusted with what, and what the holder of a role can and cannot cause.

There are two endpoints, `Sales` (with an audit queue, subscriptions, delayed retries, de-duplication, recurring
messages and a rate limit) and `Keeper` (with a delayed message store), the queue `Billing`, and the log `orders`. Each
role has what these commands print:

"""


def granting() -> str:
    """Say what was granted to each role."""
    rows = []
    for role, given in ROLES.items():
        printed = [" ".join(arguments).replace("tests.security.", "") for arguments in given]
        rows.append(f"| {role} | " + "<br>".join(f"`rowbus schema grants {text}`" for text in printed) + " |")
    return "| role | granted |\n| --- | --- |\n" + "\n".join(rows)


def text(place: Installation) -> str:
    """Return the whole page."""
    catalogued = catalogue.page(place)  # before any command changes anything
    found = {role: commands.outcomes(place, role) for role in ROLES}
    return "\n\n".join([INTRO.rstrip(), granting(), commands.table(found), catalogued]) + "\n"


def main() -> None:
    """Write the page."""
    with temporary_database() as dsn, installed(dsn) as place:
        PAGE.write_text(text(place), encoding="utf-8")


if __name__ == "__main__":
    main()
