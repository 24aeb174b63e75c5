"""The programs that faults hit, each a process of its own: users' code, which `rowbus run` imports, and producers."""
