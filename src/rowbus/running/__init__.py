"""Running: the base of services, circuit breakers, back-off, waits, signals, worker processes."""
