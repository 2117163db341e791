"""Base of spouts and bolts."""

from collections.abc import Awaitable, Collection, Mapping
from typing import Any

from kstorm.errors import ConfigError
from kstorm.topology.declarer import OutputFieldsDeclarer
from kstorm.topology.fields import Fields

Maybe = Awaitable[None] | None
"""Return type of methods that may be plain or async."""


def configuration_of(component: "Component") -> Mapping[str, Any]:
    """Return a component's settings. Raises `ConfigError` if they are not settings by name."""
    found = component.get_component_configuration()
    if found is None:
        return {}
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise ConfigError(
            f"get_component_configuration of {type(component).__name__} returned {found!r:.200}: "
            "it must return a dict of settings by name"
        )
    return found


class Component:
    """A spout or a bolt."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the streams that this component emits. The default declares none."""

    def get_component_configuration(self) -> dict[str, Any] | None:
        """Return this component's settings, by name.

        Names of `Config` fields override the topology's settings. Other names are the component's
        own. None is the same as an empty dict, as in Storm.
        """
        return {}

    def refuses_exactly_once(self) -> str:
        """Return why this component cannot be processed exactly once and what to do instead.

        The default, "", means that it can.
        """
        return ""

    def refuses_inputs(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        """Return why this bolt cannot work with its inputs and what to do instead.

        `inputs` are the fields of each (component, stream). The default, "", means that it can.
        """
        return ""

    def grouped_by(self) -> Collection[str]:
        """Return fields whose equal values must reach the same task, for a correct result.

        The builder then refuses inputs that several tasks share in another way. The default,
        without fields, means that any task may receive any tuple.
        """
        return ()

    def metrics(self) -> Mapping[str, float]:
        """Return metrics of this task for `/metrics` and `/status`, by name. The default returns
        none.

        `{"cache_hits_total": 3}` is shown as `kstorm_own_cache_hits_total`, with the component and
        the task as labels. A name consists of letters, digits and underscores. A name that ends in
        `_total` is a counter that only grows, any other a gauge. The method is called on the event
        loop at each scrape, so only return values that you have counted before.
        """
        return {}

    def problem(self) -> Exception | None:
        """Return why this task cannot work at the moment, for `/readyz`, or None if it can (the
        default).

        The process is not ready while this returns an error. Anyone who can reach the page can read
        it. So the page shows the message of a `KstormError`, but only the type of any other error.
        The log contains all messages. Like `metrics`, this is called on the event loop.
        """
        return None


class Wrapped(Component):
    """A component that runs inside another one, such as a windowed bolt.

    The builder replaces the component with the bolt that `executor` returns.
    """

    def executor(self) -> Any:
        """Return the bolt that runs this component. Raises `TopologyError` if it cannot run."""
        raise NotImplementedError(f"{type(self).__name__} does not define executor")
