"""A client for programs that query a running topology."""

from kstorm.introspection.state_query import StateEntry, StateVersion
from kstorm.operations.state.state_client import StateClient

__all__ = ["StateClient", "StateEntry", "StateVersion"]
