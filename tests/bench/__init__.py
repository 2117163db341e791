"""Measurements: kstorm compared with other programs doing the same work, and its parts alone."""
