"""The ticker's rights: refuse to lend them to functions of a schema pgq whose owner is not trusted.

Invariant: nothing of schema pgq is read or called on a session before `check_rights` has checked its owner.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.log.ticker import ticks

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession

logger = logging.getLogger("rowbus.ticker")


async def check_rights(session: AsyncSession) -> None:
    """Raise ConfigurationError if the schema's owner would gain a superuser's rights."""
    rights = await session.run(ticks.rights())
    if rights.obstacle is not None:
        raise ConfigurationError(rights.obstacle)


async def warn_of_rights(session: AsyncSession) -> None:
    """Log a warning if the role may do more than a ticker needs."""
    rights = await session.run(ticks.rights())
    if rights.warning is not None:
        logger.warning("%s", rights.warning)
