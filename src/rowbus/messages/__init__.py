"""Addresses, headers, messages and message types: values, without I/O."""
