"""Sessions of the ticker and of maintenance: configured, and refused to a role that would lend its rights to strangers.

Invariant: nothing of schema pgq is read or called on a session before `check_rights` has checked its owner.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.log.ticker import ticks

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.database import Database
    from rowbus.database.statements import Statement
    from rowbus.log.ticker.ticks import TickerRights

logger = logging.getLogger("rowbus.ticker")


async def open_session(
    database: Database, configuration: Statement[None], *, warns: bool = False
) -> AsyncSession:
    """Open and configure a session; with `warns`, log a warning if the role may do more than a ticker needs.

    Raises ConnectionLostError, and ConfigurationError for a role that must not call functions of schema pgq.
    """
    session = await database.connect()
    try:
        await session.run(configuration)
        rights = await check_rights(session)
    except BaseException:
        await session.close()
        raise
    if warns and rights.warning is not None:
        logger.warning("%s", rights.warning)
    return session


async def check_rights(session: AsyncSession) -> TickerRights:
    """Return what the role lends; raise ConfigurationError if the schema's owner would gain a superuser's rights."""
    rights = await session.run(ticks.rights())
    if rights.obstacle is not None:
        raise ConfigurationError(rights.obstacle)
    return rights
