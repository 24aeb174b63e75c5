"""Loops that start and stop, and the steps they carry out.

Invariant: no SQL and no policy; statements come from `tables`, decisions from `model`, both are only carried out here.
"""
