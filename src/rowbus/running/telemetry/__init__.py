"""A process's word on itself while it serves: measurements, health, traces, and its life to systemd."""
