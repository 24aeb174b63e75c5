"""Endpoints: handlers, the context they are given, and the life of the process that serves them.

Invariant: this layer knows messages and policies; loops are in `services`, SQL below.
"""

from __future__ import annotations

from rowbus.endpoint.context import Context, SyncContext
from rowbus.endpoint.endpoint import Endpoint
from rowbus.endpoint.steps.chain import Proceed, Step
from rowbus.endpoint.steps.context import StepContext

__all__ = ["Context", "Endpoint", "Proceed", "Step", "StepContext", "SyncContext"]
