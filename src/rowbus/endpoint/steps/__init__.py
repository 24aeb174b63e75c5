"""The steps around handlers: the built-in ones, and those of the endpoint."""
