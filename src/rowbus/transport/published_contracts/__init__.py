"""The contracts that endpoints publish, in a table of our own."""
