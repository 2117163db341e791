"""What holds a topology back, ranked, with the evidence: from two looks at the `/status` of its processes, and at its groups' lag.

A component that is slow is busy and its queue grows; those before it wait for it. So the cause is where the work is, and not where
the waiting is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from kstorm.inspect.words import many

_BUSY: Final = 0.85
"""Share of the time from which on a process is the bottleneck."""
_HELD: Final = 0.2
"""Share of the time from which on a wait is told."""
_HOT: Final = 3.0
"""How many times its share of the tuples a task may have."""
_NEARLY_ALL: Final = 0.9
_LEAST_TUPLES: Final = 1000
"""Of a component, before its tasks are compared."""
_LEAST_LAG: Final = 10

Page = Mapping[str, Any]
"""What a process says at `/status`."""


class Look(Struct, frozen=True):
    """One look at a component."""

    at: float
    """Seconds of any clock."""
    pages: Sequence[Page]
    """Of each process that answers."""
    lag: int | None = None
    """Records of its input that its group has not committed; None if nobody asked."""


class Component(Struct, frozen=True):
    """Two looks at a component."""

    name: str
    kind: str
    """`spout`, `bolt` or `acker`."""
    processes: int
    """That there should be."""
    before: Look
    after: Look


class HoldUp(Struct, frozen=True):
    """Something that holds the topology back."""

    component: str
    kind: str
    """`processes missing`, `cannot work`, `busy`, `hot task`, `producer queue`, `transactions`, `too much in flight`,
    `pending limit`."""
    said: str
    evidence: Sequence[str] = ()
    weight: float = 0.0
    """1: it stands still; the higher, the more telling."""


def causes(components: Sequence[Component]) -> Sequence[HoldUp]:
    """What holds the topology back, the most telling first; nothing if nothing does."""
    found = [cause for component in components for cause in _of(component)]
    slow = list(dict.fromkeys(cause.component for cause in found if cause.kind in _SLOW))
    after = _downstream(components)
    for component in components:
        found += _pending(component, [name for name in slow if name in after[component.name]])
    return sorted(found, key=lambda cause: -cause.weight)


def _of(component: Component) -> Iterator[HoldUp]:
    yield from _missing(component)
    yield from _cannot_work(component)
    yield from _busy(component)
    yield from _hot(component)
    yield from _waits(component)


def _missing(component: Component) -> Iterator[HoldUp]:
    there = len(component.after.pages)
    if there < component.processes:
        said = f"{component.name}: {there} of {component.processes} processes answer"
        yield HoldUp(component.name, "processes missing", said, _lag(component), 0.8 if there else 1.0)


def _cannot_work(component: Component) -> Iterator[HoldUp]:
    evidence = [f"{_instance(page)}: {page['not_ready']}" for page in component.after.pages if page.get("not_ready")]
    if evidence:
        yield HoldUp(component.name, "cannot work", f"{component.name} cannot work", evidence, 0.95)


def _busy(component: Component) -> Iterator[HoldUp]:
    shares = _shares(component, lambda page: page.get("busy_seconds", 0.0))
    most = max(shares.values(), default=0.0)
    if most >= _BUSY:
        rising = _rises(component)
        said = f"{component.name} is the bottleneck: {most:.0%} busy{', and its lag rises' if rising else ''}"
        evidence = [*_told(shares, _BUSY, "busy"), *_lag(component)]
        yield HoldUp(component.name, "busy", said, evidence, 0.5 + 0.2 * min(1.0, most) + (0.2 if rising else 0.0))


def _hot(component: Component) -> Iterator[HoldUp]:
    """One task has far more than its share: many tuples have one key."""
    executed: dict[str, int] = {}
    for page, before in _pairs(component):
        for task, counts in page.get("by_task", {}).items():
            done = counts.get("executed", 0) - before.get("by_task", {}).get(task, {}).get("executed", 0)
            executed[task] = executed.get(task, 0) + done
    total = sum(executed.values())
    if len(executed) == 1 or total < _LEAST_TUPLES:
        return
    task, most = max(executed.items(), key=lambda item: item[1])
    if most >= _HOT * total / len(executed) or most >= _NEARLY_ALL * total:
        said = f"{component.name}: one of its {len(executed)} tasks has {most / total:.0%} of the tuples, as one key is hot"
        yield HoldUp(component.name, "hot task", said, [f"task {task}: {most:,} of {many(total, 'tuple')}"], 0.6)


def _waits(component: Component) -> Iterator[HoldUp]:
    for wait, (kind, words) in _WAITS.items():
        shares = _shares(component, partial(_waited, wait))
        most = max(shares.values(), default=0.0)
        if most >= _HELD:
            said = f"{component.name} {words}"
            yield HoldUp(component.name, kind, said, _told(shares, _HELD, "of the time"), 0.4 + 0.3 * min(1.0, most))


def _pending(component: Component, slow: Sequence[str]) -> Iterator[HoldUp]:
    """A spout that waits for its trees waits for somebody else, if anybody is slow."""
    shares = _shares(component, partial(_waited, "pending_limit"))
    if max(shares.values(), default=0.0) < _HELD:
        return
    evidence = _told(shares, _HELD, "of the time")
    if slow:
        said = f"{component.name} waits for {', '.join(slow)}"
    else:
        said = (
            f"{component.name} has as many trees in flight as topology_max_spout_pending allows, and nobody is busy: raise it, or "
            "see by `kstorm why --oldest` what holds them"
        )
    yield HoldUp(component.name, "pending limit", said, evidence, 0.2 if slow else 0.6)


def _pairs(component: Component) -> Iterator[tuple[Page, Page]]:
    """The page of each process now and before; of one that began meanwhile there is none before."""
    before = {_life(page): page for page in component.before.pages}
    for page in component.after.pages:
        yield page, before.get(_life(page), {})


def _life(page: Page) -> tuple[Any, ...]:
    return page.get("instance"), page.get("pid"), page.get("begun_at")


def _instance(page: Page) -> str:
    return str(page.get("instance", "?"))


def _shares(component: Component, seconds: Callable[[Page], float]) -> dict[str, float]:
    """By process, what part of the time between the looks some seconds are."""
    passed = component.after.at - component.before.at
    pairs = [(page, before) for page, before in _pairs(component) if before and passed > 0]
    return {_instance(page): (seconds(page) - seconds(before)) / passed for page, before in pairs}


def _waited(cause: str, page: Page) -> float:
    return float(page.get("waits", {}).get(cause, 0.0))


def _told(shares: Mapping[str, float], least: float, of_what: str) -> list[str]:
    return [f"{instance}: {share:.0%} {of_what}" for instance, share in shares.items() if share >= least]


def _lag(component: Component) -> list[str]:
    now, before = component.after.lag, component.before.lag
    if now is None or before is None or now < _LEAST_LAG:
        return []
    return [f"lag {many(now, 'record')}, {'rising' if _rises(component) else 'falling' if now < before else 'level'}"]


def _rises(component: Component) -> bool:
    now, before = component.after.lag, component.before.lag
    return now is not None and before is not None and now > max(_LEAST_LAG, before)


def _downstream(components: Sequence[Component]) -> dict[str, set[str]]:
    """By component, all that tuples of it come to. Ackers hear of all."""
    targets: dict[str, set[str]] = {component.name: set() for component in components}
    ackers = {component.name for component in components if component.kind == "acker"}
    for component in components:
        for page in component.after.pages:
            targets[component.name] |= {str(edge["target"]) for edge in page.get("edges", ())}
    return {name: _reached(name, targets) | ackers for name in targets}


def _reached(name: str, targets: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        following = targets.get(left.pop(), set()) - found
        found |= following
        left += following
    return found


_SLOW: Final = ("processes missing", "cannot work", "busy", "hot task", "producer queue", "transactions")
_WAITS: Final[Mapping[str, tuple[str, str]]] = {
    "producer_queue": ("producer queue", "waits for Kafka to take its records"),
    "epoch": ("transactions", "waits for its transactions to end"),
    "input_throttled": ("too much in flight", "reads nothing, as too much of what it has read is not finished"),
}
"""By what `/status` calls it."""
