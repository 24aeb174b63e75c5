"""How a service runs: breakers, back-off, waits, signals, worker processes."""
