"""`python -m rowbus`: the command line without the script.

Invariant: the same as the script `rowbus`, and nothing else.
"""

from __future__ import annotations

from rowbus.cli import main

if __name__ == "__main__":
    main()
