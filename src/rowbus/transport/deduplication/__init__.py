"""De-duplication: the table of accepted messages."""
