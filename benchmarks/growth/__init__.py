"""`make bench ARGS=growth`: curves, what a figure does while one thing grows.

Invariant: a point is the median of the rounds, and a curve is judged by its worst point.
"""
