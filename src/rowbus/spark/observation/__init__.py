"""Measurements and traces of a session's streaming queries, made by the driver from what Spark reports."""
