"""A service process: its settings, life cycle, web pages and metrics."""
