"""Access to the page: who is there, what they may do, and which requests are refused before any page runs."""
