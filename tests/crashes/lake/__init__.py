"""A lake that follows tables under random statements, while its job and the server are killed."""
