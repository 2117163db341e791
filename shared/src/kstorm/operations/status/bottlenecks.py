"""Rank the bottlenecks of a topology, with evidence.

The input is two snapshots of its processes' `/status` and of its consumer groups' lag. A slow
component is busy and its queue grows, while the components upstream wait for it. So the cause is
the component that is busy, not the ones that wait.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from kstorm.operations.formatting import counted, duration, utc_clock
from kstorm.operations.status.downstream import downstream
from kstorm.operations.status.event_time_problems import event_time_causes
from kstorm.operations.status.evidence import (
    MOST_TOLD,
    advice_for,
    described,
    holds_since,
    instance_of,
    of_lag,
    percent,
    shown_shares,
    since_when,
    waited,
)
from kstorm.operations.status.snapshots import ComponentChange, ProcessSnapshot

_BUSY: Final = 0.85
"""A process counts as a bottleneck if it is busy for at least this share of the time."""
_HELD: Final = 0.2
"""A wait is reported if it takes at least this share of the time."""
_HOT: Final = 3.0
"""A task is hot if it gets at least this multiple of its fair share of the tuples."""
_NEARLY_ALL: Final = 0.9
_LEAST_TUPLES: Final = 1000
"""With fewer tuples than this, the tasks of a component are not compared."""
_OFTEN: Final = 3
"""A message is reported after this number of failed attempts."""
_REMARK: Final = 0.1
_LATE_SECS: Final = 5.0
"""A component with a longer backlog than this holds back the components upstream."""

SAID_BY_PROCESSES: Final = frozenset(
    {"kafka away", "not there", "processes missing", "cannot work", "deactivated"}
    | {"reads nothing", "open transaction", "recovered"}
)
"""Kinds of causes that the remarks of the processes name, or the reasons why they are not ready."""


class Bottleneck(Struct, frozen=True):
    """A bottleneck of the topology."""

    component: str
    """Empty if the whole topology is affected."""
    kind: str
    """One of `scaled to 0`, `kafka away`, `not there`, `deactivated`, `reads nothing`, `open
    transaction`, `processes missing`, `cannot work`, `busy`, `behind`, `hot task`, `producer
    queue`, `transactions`, `too much in flight`, `pending limit`, `failing message`, `late tuples`,
    `event time`, `recovered`."""
    said: str
    evidence: Sequence[str] = ()
    weight: float = 0.0
    """Weight of the cause, from 0 to 1. 1 means that nothing is processed."""
    since: float | None = None
    """Unix time at which the cause began, or None if unknown."""


def bottlenecks_of(
    components: Sequence[ComponentChange], no_broker: str = ""
) -> Sequence[Bottleneck]:
    """Return the bottlenecks, most significant first, or empty.

    `no_broker` is the error if no broker responds, or empty.
    """
    found = [*_kafka_unavailable(components, no_broker), *_deactivated(components)]
    for component in components:
        found += _bottlenecks_of_component(component)
    slow = list(
        dict.fromkeys(
            cause.component for cause in found if cause.component and cause.kind != "hot task"
        )
    )
    after = downstream(components)
    still = {"kafka away", "deactivated"} & {cause.kind for cause in found}
    for component in components:
        if component.kind == "spout" and component.name not in slow and not still:
            found += _spout(component, [name for name in slow if name in after[component.name]])
    return sorted(found, key=lambda cause: -cause.weight)


def describe(cause: Bottleneck, now: float) -> str:
    """Describe a cause, including its start time if known. `now` is the Unix time."""
    if cause.since is None:
        return cause.said
    return (
        f"{cause.said}; since {utc_clock(cause.since * 1000)} "
        f"({duration(max(0.0, now - cause.since) * 1000)})"
    )


# Causes that stop one component or all components.


def _kafka_unavailable(
    components: Sequence[ComponentChange], no_broker: str
) -> Iterator[Bottleneck]:
    """Yield an outage if a process waits for Kafka, or if no broker responds.

    The second check is needed because processes notice an outage late.
    """
    all_of_them = [process for component in components for process in component.after.processes]
    waiting = [process for process in all_of_them if _waiting_for_kafka(process)]
    if waiting:
        since = min(float(process.page["kafka_away_since"]) for process in waiting if process.page)
        said = f"Kafka does not answer {len(waiting)} of {len(all_of_them)} processes"
        yield Bottleneck("", "kafka away", said, described(waiting[:1]), 0.99, since)
    elif no_broker:
        yield Bottleneck("", "kafka away", "Kafka does not answer", [no_broker], 0.99)


def _waiting_for_kafka(process: ProcessSnapshot) -> bool:
    return process.page is not None and bool(process.page.get("kafka_away_since"))


def _deactivated(components: Sequence[ComponentChange]) -> Iterator[Bottleneck]:
    pages = [
        page
        for component in components
        if component.kind == "spout"
        for page in component.after.pages
    ]
    silent = [page for page in pages if page.get("active") is False]
    if silent:
        said = "the topology is deactivated: its spouts emit nothing until `kstorm activate`"
        evidence = list(dict.fromkeys(str(page["remark"]) for page in silent if page.get("remark")))
        since = next(
            (float(page["deactivated_since"]) for page in silent if page.get("deactivated_since")),
            None,
        )
        yield Bottleneck("", "deactivated", said, evidence, 0.96, since)


def _bottlenecks_of_component(component: ComponentChange) -> Iterator[Bottleneck]:
    if component.processes == 0 and not component.after.pages:
        yield _scaled_to_0(component)
        return
    unready = [process for process in component.unready if not _waiting_for_kafka(process)]
    if component.ready == 0:
        if unready or not component.after.processes:
            yield _no_process(component, unready)
        return
    yield from _silent(component)
    busy = _busy_component(component, unready)
    if busy is not None:
        yield busy
    else:
        yield from _some_missing(component, unready)
        yield from _lagging(component)
    yield from _hot(component)
    yield from _waiting(component)
    yield from _failing(component)
    yield from _recovered(component)
    yield from (Bottleneck(component.name, *cause) for cause in event_time_causes(component))


def _scaled_to_0(component: ComponentChange) -> Bottleneck:
    said = f"{component.name} is scaled to 0: no process should run"
    lag = component.said_of_lag()
    return Bottleneck(component.name, "scaled to 0", said, [lag] if lag else [], 1.0)


def _no_process(component: ComponentChange, unready: Sequence[ProcessSnapshot]) -> Bottleneck:
    said = f"no process of {component.name} is ready (0 of {component.processes})"
    return Bottleneck(
        component.name,
        "not there",
        said,
        [*described(unready), *of_lag(component)],
        0.97,
        since_when(unready),
    )


def _silent(component: ComponentChange) -> Iterator[Bottleneck]:
    """Yield causes for running processes that receive no input."""
    pages = component.after.pages
    unread = [f"{instance_of(page)}: {page['unread']}" for page in pages if page.get("unread")]
    if unread:
        yield Bottleneck(
            component.name,
            "reads nothing",
            f"{component.name} cannot read its source",
            unread,
            0.95,
        )
    hanging = [page for page in pages if page.get("input_waits")]
    if hanging:
        said = f"{component.name} waits for a stuck transaction, which blocks the records after it"
        evidence = list(dict.fromkeys(str(page["input_waits"]) for page in hanging))
        times = [
            float(page["input_waits_since"]) for page in hanging if page.get("input_waits_since")
        ]
        yield Bottleneck(
            component.name, "open transaction", said, evidence, 0.9, min(times, default=None)
        )


# Causes that slow down a component.


def _some_missing(
    component: ComponentChange, unready: Sequence[ProcessSnapshot]
) -> Iterator[Bottleneck]:
    if component.ready < component.processes:
        some = (
            sum(process.page is not None for process in component.after.processes)
            >= component.processes
        )
        # The only unready processes wait for Kafka.
        if not unready and some:
            return
        kind, weight = ("cannot work", 0.85) if some else ("processes missing", 0.8)
        said = f"{component.name}: {component.ready} of {component.processes} processes ready"
        evidence = [*described(unready), *of_lag(component)]
        yield Bottleneck(component.name, kind, said, evidence, weight, since_when(unready))


def _busy_component(
    component: ComponentChange, unready: Sequence[ProcessSnapshot]
) -> Bottleneck | None:
    shares = component.shares(lambda page: page.get("busy_seconds", 0.0))
    most = max(shares.values(), default=0.0)
    if most < _BUSY:
        return None
    said = [f"{component.name} is the bottleneck: {percent(most)} busy", component.said_of_lag()]
    missing = component.ready < component.processes
    if missing:
        said.append(f"{component.ready} of {component.processes} processes ready")
    evidence = [*shown_shares(shares, _BUSY, "busy"), component.most_behind(), *described(unready)]
    rises = (component.growth or 0.0) > 0
    weight = 0.5 + 0.2 * min(1.0, most) + (0.2 if rises else 0.05 if missing else 0.0)
    return Bottleneck(
        component.name,
        "busy",
        ", ".join(filter(None, said)) + advice_for(component),
        list(filter(None, evidence)),
        weight,
        since_when(unready),
    )


def _lagging(component: ComponentChange) -> Iterator[Bottleneck]:
    """Yield a cause if the queue is long although the component is not busy.

    Such a component waits for something else, or does not read.
    """
    late = component.late
    if component.kind == "spout" or late is None or not component.lags or late <= _LATE_SECS:
        return
    if late == float("inf"):
        said, weight = f"{component.name} reads nothing, {component.said_of_lag()}", 0.88
    else:
        said, weight = (
            f"{component.name} is {duration(late * 1000)} behind, {component.said_of_lag()}",
            0.5,
        )
    told = component.most_behind()
    weight += 0.1 if (component.growth or 0.0) > 0 else 0.0
    yield Bottleneck(
        component.name, "behind", said + advice_for(component), [told] if told else [], weight
    )


def _hot(component: ComponentChange) -> Iterator[Bottleneck]:
    """Yield a cause if one task has far more than its share of tuples, because of a hot key."""
    executed: dict[str, int] = {}
    for page, before in component.pairs():
        for task, counts in page.get("by_task", {}).items():
            done = counts.get("executed", 0) - before.get("by_task", {}).get(task, {}).get(
                "executed", 0
            )
            executed[task] = executed.get(task, 0) + done
    total = sum(executed.values())
    if len(executed) == 1 or total < _LEAST_TUPLES:
        return
    task, most = max(executed.items(), key=lambda item: item[1])
    if most >= _HOT * total / len(executed) or most >= _NEARLY_ALL * total:
        said = (
            f"{component.name}: one of its {len(executed)} tasks has {percent(most / total)} "
            "of the tuples, because one key is hot"
        )
        evidence = [f"task {task}: {most:,} of {counted(total, 'tuple')}", *of_lag(component)]
        yield Bottleneck(component.name, "hot task", said, evidence, 0.6)


def _waiting(component: ComponentChange) -> Iterator[Bottleneck]:
    for wait, (kind, words) in _WAITS.items():
        shares = component.shares(partial(waited, wait))
        most = max(shares.values(), default=0.0)
        if most >= _HELD:
            evidence = [*shown_shares(shares, _HELD, "of the time"), *of_lag(component)]
            weight = 0.4 + 0.3 * min(1.0, most)
            yield Bottleneck(
                component.name,
                kind,
                f"{component.name} {words}",
                evidence,
                weight,
                holds_since(component, wait),
            )


def _failing(component: ComponentChange) -> Iterator[Bottleneck]:
    """Yield a cause if messages fail again and again, because the stored offset cannot pass them."""
    found = [one for page in component.after.pages for one in page.get("failing", ())]
    found.sort(key=lambda one: -int(one["attempts"]))
    told = [_failure(one) for one in found if one["attempts"] >= _OFTEN]
    if told:
        more = f", and {len(told) - 1} more messages fail" if len(told) > 1 else ""
        yield Bottleneck(
            component.name, "failing message", f"{told[0]}{more}", told[1:MOST_TOLD], 0.35
        )


def _recovered(component: ComponentChange) -> Iterator[Bottleneck]:
    """Yield a remark if a process had lost its disk. It does not slow the topology any more."""
    for page in component.after.pages:
        if page.get("recovered"):
            said = f"{instance_of(page)} {page['recovered']}"
            yield Bottleneck(component.name, "recovered", said, (), _REMARK)


def _failure(failure: Mapping[str, Any]) -> str:
    place = f"{failure['topic']}/{failure['partition']}/{failure['offset']}"
    why = (
        "timed out"
        if failure["timed_out"]
        else ", ".join(filter(None, (failure["error"], failure["where"]))) or "failed by a bolt"
    )
    return f"{place} has failed {failure['attempts']:,} times: {why}"


def _spout(component: ComponentChange, slow: Sequence[str]) -> Iterator[Bottleneck]:
    """Attribute a spout's pending limit to slow bolts, if any.

    If a spout lags although it does not wait for trees, the spout itself is the cause.
    """
    shares = component.shares(partial(waited, "pending_limit"))
    evidence = [*shown_shares(shares, _HELD, "of the time"), *of_lag(component)]
    if max(shares.values(), default=0.0) >= _HELD:
        said = (
            f"{component.name} waits for {', '.join(slow)}"
            if slow
            else (
                f"{component.name} has as many trees in flight as topology_max_spout_pending "
                "allows, and no component is busy: raise it, or find out with `kstorm why "
                "--oldest` what holds them"
            )
        )
        since = holds_since(component, "pending_limit")
        yield Bottleneck(
            component.name, "pending limit", said, evidence, 0.2 if slow else 0.6, since
        )
        return
    late, growth = component.late, component.growth or 0.0
    # A short backlog may grow for a moment, because some messages are in flight.
    if slow or not component.lags or late is None or late <= _LATE_SECS:
        return
    pace = (
        "and emits nothing"
        if late == float("inf")
        else f"about {duration(late * 1000)} of work, and no component that it sends to is busy"
    )
    said = f"{component.name} is behind its source: {component.said_of_lag()}, {pace}"
    yield Bottleneck(component.name, "behind", said, (), 0.45 if growth > 0 else 0.3)


_WAITS: Final[Mapping[str, tuple[str, str]]] = {
    "producer_queue": ("producer queue", "waits for Kafka to accept its records"),
    "epoch": ("transactions", "waits for its transactions to end"),
    "input_throttled": (
        "too much in flight",
        "has paused reading, because too much of its input is unfinished",
    ),
}
"""Cause and description of each wait, keyed by its name in `/status`."""
