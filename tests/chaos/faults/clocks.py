"""Clocks of programs that are off by hours, by a library that is loaded before libc's functions."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.chaos.faults.fault import Fault, Site, Unavailable

if TYPE_CHECKING:
    from tests.chaos.system import System

HOURS = {"work": 2, "follow": -2, "ticker 1": 2, "ticker 2": -2, "consumer 1": -2, "consumer 2": 2}
HOURS |= {"mover 1": 2, "mover 2": -2, "producer 0": 2, "producer 1": -2}
SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long off(void) { const char *s = getenv("CHAOS_SECONDS_OFF"); return s ? atol(s) : 0; }

int clock_gettime(clockid_t clock, struct timespec *t) {
    int done = (int)syscall(SYS_clock_gettime, clock, t);
    if (!done && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) t->tv_sec += off();
    return done;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec; t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
"""


class ClockOff(Fault):
    """Half of the programs are two hours ahead of the database, half are behind it; leaders change meanwhile."""

    name = "clock-off"

    def prepare(self, site: Site, system: System) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise Unavailable("there is no C compiler for the library that shifts clocks")
        library = site.folder / "clock.so"
        (site.folder / "clock.c").write_text(SOURCE, "utf-8")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(site.folder / "clock.c")]
        subprocess.run(command, check=True, capture_output=True)
        for name, hours in HOURS.items():
            off = str(hours * 3600)
            system.environments[name] = {"LD_PRELOAD": str(library), "CHAOS_SECONDS_OFF": off}

    def strike(self, system: System) -> None:
        for application in ("rowbus ticker%", "rowbus mover%"):
            system.program_of(system.leader(application)).end()
        for program in system.programs.values():
            if not program.is_running:
                system.replace(program)
