"""Rowbus's plugin of pytest: a database for each test, a copy of one that is made once for all.

Every pytest of an environment with Rowbus loads this module.

Invariant: it loads nothing but pytest until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rowbus.testing.template import Template


@pytest.fixture(scope="session")
def rowbus_prepare() -> Callable[[str], object] | None:
    """Say what every test's database holds: override it to return what fills the one they are copied from.

    It is called once a session with that database's connection string, and must leave no connection open.
    """
    return None


@pytest.fixture(scope="session")
def rowbus_template(rowbus_prepare: Callable[[str], object] | None) -> Generator[Template]:
    """Give what copies databases: on the server of ROWBUS_DATABASE, else on the embedded one."""
    from rowbus.testing.template import template  # noqa: PLC0415 - see the module

    with template(rowbus_prepare) as made:
        yield made


@pytest.fixture
def rowbus_database(rowbus_template: Template) -> Generator[str]:
    """Give the connection string of a database of this test's own; it is dropped when the test ends."""
    with rowbus_template.copy() as dsn:
        yield dsn
