"""The outline of a topology and the format of state queries, shared by services and operations."""
