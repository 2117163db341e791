"""Measurements: kstorm beside others doing the same work, and its parts one by one."""
