"""What a process tells of itself while it serves: measurements, health, traces, and its life to systemd."""
