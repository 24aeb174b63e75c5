"""The page of operations: what operators did here, and one of them while it runs."""
