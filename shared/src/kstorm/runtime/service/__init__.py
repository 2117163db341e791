"""A service as a process: its settings, its life, its pages and figures."""
