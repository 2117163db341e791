"""Activate, deactivate and drain a topology."""
