"""Sagas: long-running processes whose state is a row in the receive transaction."""
