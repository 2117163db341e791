"""A client for programs that query a running topology."""

from kstorm.cli.state_client import StateClient
from kstorm.inspect.asked import AsOf, Found

__all__ = ["AsOf", "Found", "StateClient"]
