"""One class a table family, one method a `.sql` file.

Invariant: methods return statements and never run them; there are no loops and no decisions here.
"""
