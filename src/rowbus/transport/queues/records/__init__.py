"""Tables of facts, beside those of messages: what their statements have in common."""
