"""Events on their way into logs: what a dispatch, or a producer of its own, appends."""
