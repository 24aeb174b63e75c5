"""The embedded server on the command line: who may serve on it, and the verbs that look after it."""
