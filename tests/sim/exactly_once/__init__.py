"""Exactly once in simulation: a small world of its own, whatever dies in it."""
