"""What a page shows, made by one function for the page and for the same as JSON, so that the two cannot differ.

The rule: what is in there may be shown. Nothing of a message's key, value and headers gets this far, unless values are shown.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request

from kstorm_ui.asked import Problem
from kstorm_ui.state import TopologyState


class Shown(msgspec.Struct, frozen=True):
    """The answer to one request."""

    data: msgspec.Struct
    """What the JSON says; its fields are the template's values too."""
    problem: Problem = Problem()
    """Why there is none: then `data` is empty, and the JSON says this instead."""
    state: TopologyState | None = None
    """Of the topology that it is about."""

    @property
    def values(self) -> dict[str, Any]:
        """For a template."""
        return {"state": self.state, "problem": self.problem, **msgspec.structs.asdict(self.data)}


Make = Callable[[Request], Awaitable[Shown]]
"""What answers a request."""
