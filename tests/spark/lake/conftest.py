"""Contents of the log of captured tables when a test of a lake begins."""

from __future__ import annotations

import pytest


@pytest.fixture
def log_script() -> str:
    """Give what makes the log "changes", with the consumer "lake"."""
    return "select pgq.create_queue('changes'); select pgq.register_consumer('changes', 'lake')"
