"""The benchmarks of `make bench`: ratios, each measured in one run on one server with default durability.

Invariant: both sides of a ratio do the same work on the same server, alternating; every figure printed was measured
by this run. A ratio carries over to other machines, messages per second do not.
"""
