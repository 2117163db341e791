"""Metrics of the users' components."""

from collections import Counter
from collections.abc import Iterable, Mapping

from kstorm.core.engine.journal import Journal
from kstorm.runtime.base.metrics import Sample
from kstorm.topology.component import Component

Components = Iterable[tuple[int, Component]]
"""Components with their task IDs."""


def component_samples(components: Components, journal: Journal) -> Iterable[Sample]:
    """Yield the metrics by task, for `/metrics`."""
    for task, component in components:
        for name, value in _metrics(component, task, journal).items():
            yield f"own_{name}", "Value returned by the component", value, {"task": str(task)}


def component_totals(components: Components, journal: Journal) -> dict[str, float]:
    """Return the metrics summed over the tasks, for `/status`."""
    totals: Counter[str] = Counter()
    for task, component in components:
        totals.update(_metrics(component, task, journal))
    return dict(totals)


def _metrics(component: Component, task: int, journal: Journal) -> Mapping[str, float]:
    """Return a component's metrics. If it raises, log the error in the journal and return none."""
    try:
        return component.metrics()
    except Exception as error:  # noqa: BLE001 - user code may raise anything, the page must still work
        journal.error(error, "in metrics", task)
        return {}
