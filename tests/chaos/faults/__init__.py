"""The faults, each under its name; `FAULTS` has all of them, in the order of the table."""

from __future__ import annotations

from tests.chaos.faults import (
    clocks,
    drivers,
    freezes,
    handlers,
    kills,
    locks,
    long_handlers,
    network,
    poisons,
    servers,
)
from tests.chaos.faults.fault import Fault

_ALL: tuple[type[Fault], ...] = (
    kills.KillWorker,
    kills.KillTicker,
    kills.KillMover,
    kills.KillConsumer,
    drivers.KillDriver,
    servers.KillBackend,
    servers.StopServer,
    servers.Failover,
    servers.StandbyAway,
    servers.DiskFull,
    servers.ConnectionsExhausted,
    servers.VacuumHeldBack,
    network.StalledProxy,
    network.ResetNetwork,
    network.CutNetwork,
    network.SlowNetwork,
    network.PgbouncerSession,
    network.PgbouncerTransaction,
    freezes.FreezeWorker,
    freezes.FreezeTicker,
    freezes.FreezeMover,
    freezes.FreezeConsumer,
    clocks.ClockOff,
    poisons.PoisonConnection,
    poisons.PoisonCrash,
    poisons.PoisonEvent,
    handlers.Panic,
    handlers.Exit,
    handlers.LeftoverTask,
    handlers.BusyConnection,
    handlers.SetRole,
    handlers.ContextVariable,
    locks.LockedDestination,
    locks.LateCommit,
    long_handlers.LongKill,
    long_handlers.LongFreeze,
    long_handlers.LongCut,
    long_handlers.LongRestart,
)

FAULTS: dict[str, type[Fault]] = {fault.name: fault for fault in _ALL}
