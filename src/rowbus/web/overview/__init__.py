"""The overview: every queue, program, table of delayed messages and log, and what the doctor found."""
