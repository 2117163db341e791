"""Moves a topology from Storm: takes over its offsets, and compares the outputs."""
