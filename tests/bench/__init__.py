"""Measurements: kstorm compared with other programs that do the same work, and its parts one by
one.
"""
