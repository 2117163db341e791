"""Exactly-once processing in simulation: a separate small world in which anything can crash."""
