"""Runs a command again each time it dies, as systemd does with `Restart=always`: `… service_manager COMMAND`."""

from __future__ import annotations

import subprocess
import sys
import time

PAUSE = 0.1  # seconds, as systemd's default

if __name__ == "__main__":
    while subprocess.call(sys.argv[1:]):
        time.sleep(PAUSE)  # long sleep: what systemd waits
