"""What spouts and bolts have in common."""

from collections.abc import Awaitable, Mapping
from typing import Any

from kstorm.topology.declarer import OutputFieldsDeclarer

Maybe = Awaitable[None] | None
"""What a method returns that may be plain or async."""


class Component:
    """A spout or a bolt, as far as a topology has to know it."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares the streams that this component emits; none by default."""

    def get_component_configuration(self) -> dict[str, Any]:
        """Settings of this component that differ from the topology's, by `Config` field name; and its own, by other names."""
        return {}

    def refuses_exactly_once(self) -> str:
        """Why this component cannot be part of a topology that is processed exactly once, and what to do instead; empty, as by
        default, if it can."""
        return ""

    def metrics(self) -> Mapping[str, float]:
        """Figures of this task's own for `/metrics` and `/status`, by name; none by default.

        `{"cache_hits_total": 3}` is shown as `kstorm_own_cache_hits_total`, with the component and the task as labels. A
        name is letters, digits and underscores; one that ends in `_total` is a counter that only grows, any other a
        gauge. Called on the event loop, at each look: count while you work, and do not compute here.
        """
        return {}

    def problem(self) -> Exception | None:
        """Why this task cannot work at the moment, for `/readyz`; None, as by default, if it can.

        The process is not ready as long as this is an error. The message of a `KstormError` is shown, of another its type, as
        whoever reaches the page may read it; its message is in the log. Called as `metrics` is.
        """
        return None


class Wrapped(Component):
    """A component that runs within another, which the builder puts in its place: a windowed bolt is one."""

    def executor(self) -> Any:
        """The bolt that runs it. Raises `TopologyError` if it cannot be run."""
        raise NotImplementedError(f"{type(self).__name__} does not define executor")
