"""Page contents, built by one function for both HTML and JSON, so that the two cannot differ.

Everything in them may be shown. They do not include a message's key, value and headers, unless
values are shown.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request

from kstorm_ui.query_cache import QueryProblem
from kstorm_ui.topology_state import TopologyState


class PageResult(msgspec.Struct, frozen=True):
    """Response to one request."""

    data: msgspec.Struct
    """The JSON. Its fields are also the template's values."""
    problem: QueryProblem = QueryProblem()
    """Reason why there is no data. In this case `data` is empty, and the JSON contains the problem
    instead."""
    state: TopologyState | None = None
    """State of the page's topology."""

    @property
    def values(self) -> dict[str, Any]:
        """Values for a template."""
        return {"state": self.state, "problem": self.problem, **msgspec.structs.asdict(self.data)}


Make = Callable[[Request], Awaitable[PageResult]]
"""Builds the response to a request."""
