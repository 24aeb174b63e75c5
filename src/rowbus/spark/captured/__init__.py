"""Captured tables, as the catalogue describes them and as the events of their triggers show their rows."""
