"""`make chaos`: real programs under faults, and a checker of what they noted. docs/reliability.md describes it."""
