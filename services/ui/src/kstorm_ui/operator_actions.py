"""Implements the actions. Each does the same as the CLI command of that name and records one event,
even if it fails."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from threading import BoundedSemaphore
from time import monotonic
from typing import Final, NamedTuple

from kstorm.errors import ControlError, FrameError, KstormError
from kstorm.events import decode_event
from kstorm.introspection.outline import Outline
from kstorm.operations.control import activation
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.remote_audit_log import recorded_by_pod
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.scaling import changes, scaled
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.operations.letters.discarding import check_discardable, discard_all
from kstorm.operations.letters.editing import check_changed
from kstorm.operations.letters.reading import numbers_of, place_of, read_one
from kstorm.operations.letters.replaying import (
    replayable,
    request_edited_replay,
    request_replays,
    why_not_editable,
)
from kstorm.operations.letters.selection import NumberedLetter
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import bounds, follow_topic
from kstorm.runtime.zookeeper.topology_nodes import Topologies, open_topologies
from kstorm.topology.names import NamesOf
from kstorm_ui.background_actions import Act, BackgroundAction
from kstorm_ui.letter_selection import SelectedLetters
from kstorm_ui.page_redaction import outcome_text

_FOLLOW_SECS: Final = 120.0
_following: Final = BoundedSemaphore(4)


class ActionTarget(NamedTuple):
    """The topology to act on, and the operator."""

    settings: Settings
    name: str
    who: str

    @contextmanager
    def topologies(self) -> Iterator[Topologies]:
        """Open the topology's ZooKeeper. Raises `KstormError` if the topology is unknown there."""
        login = self.settings.zookeeper_auth, self.settings.zookeeper_tls
        with open_topologies(self.settings.zookeeper, *login) as found:
            found.check(self.name)
            yield found


def activate(where: ActionTarget) -> Act:
    def act(action: BackgroundAction) -> str:
        with _recorded(where, "activate"), where.topologies() as found:
            return activation.activate(found, where.name, action.wait)

    return act


def deactivate(where: ActionTarget) -> Act:
    def act(action: BackgroundAction) -> str:
        with _recorded(where, "deactivate"), where.topologies() as found:
            return activation.deactivate(found, where.name, where.who, action.wait)

    return act


def drain(where: ActionTarget, timeout: float | None) -> Act:
    def act(action: BackgroundAction) -> str:
        with _recorded(where, "drain"), where.topologies() as found:
            return activation.drain(found, where.name, timeout, where.who, action.wait)

    return act


def by_pod(cluster: Cluster, name: str, who: str, verb: str, *options: str) -> Act:
    """Return the action of `kstorm VERB`, run and recorded by a pod of the topology.

    Used where the web UI cannot reach the topology's ZooKeeper.
    """

    def act(action: BackgroundAction) -> str:
        own, out, errors = cluster.another(), _CommandOutput(action), StringIO()
        pod = PodCommand(own, find_topology(own, name), "spout", "acker")
        if pod.run(verb, *options, "--", name, out=out, errors=errors, quiet=True, who=who):
            raise ControlError(
                " ".join(errors.getvalue().removeprefix("kstorm: ").split())
                or f"{pod} could not run the command"
            )
        return action.said

    return act


class _CommandOutput(StringIO):
    """Output of a command. Its last line is the progress, and in the end the result."""

    def __init__(self, action: BackgroundAction) -> None:
        super().__init__()
        self._action = action

    def flush(self) -> None:
        if lines := self.getvalue().splitlines():
            self._action.said = lines[-1]


def scale(
    cluster: Cluster, settings: Settings | None, name: str, who: str, component: str, pods: int
) -> Act:
    """Return the action of `kstorm scale`. Without `settings` a pod records the event."""

    def act(_: BackgroundAction) -> str:
        what = f"{component}={pods}"
        with (
            recorded(name, "scale", what, who=who, settings=settings)
            if settings is not None
            else recorded_by_pod(cluster.another(), name, "scale", what, who)
        ) as told:
            for workload, number in changes(cluster, name, {component: pods}).items():
                cluster.scale(workload, number)
                told.outcome = scaled(workload, number)
        return told.outcome

    return act


def replay(
    where: ActionTarget,
    selected: SelectedLetters,
    *,
    rate: float | None,
    limit: int | None,
    note: str,
    by_stages: bool,
) -> Act:
    """Return the action of `kstorm dlq replay`. It then follows the outcome of the replays for a
    limited time."""

    def act(action: BackgroundAction) -> str:
        with recorded(
            where.name, "replay", str(selected), said=note, who=where.who, settings=where.settings
        ) as told:
            found, others = replayable(
                where.settings,
                where.name,
                selected.letters(where.settings, where.name),
                force=False,
            )
            letters = found[:limit]
            if not letters:
                raise ControlError(f"no replay was ordered: {'; '.join(others)}")
            told.what = numbers_of(letters, selected.wanted.group)
            begin = _end_of_events(where)
            many = by_stages and selected.number is None and len(letters) > 1
            told.outcome = request_replays(
                where.settings,
                where.name,
                letters,
                rate=rate,
                who=where.who,
                note=note,
                by_stages=many,
            )
        return _follow(action, where, letters, begin, told.outcome)

    return act


def edit(where: ActionTarget, outline: Outline, number: int, value: bytes, note: str) -> Act:
    """Return the action of `kstorm dlq edit`, except that the scheme reads the value only when the
    spout emits the message."""

    def act(action: BackgroundAction) -> str:
        with recorded(
            where.name, "edit", str(number), said=note, who=where.who, settings=where.settings
        ) as told:
            one = read_one(where.settings, where.name, number)
            if why := why_no_edit(where.settings, outline, one):
                raise ControlError(f"{number} cannot be edited: {why}")
            check_changed(one, value)
            begin = _end_of_events(where)
            told.outcome = request_edited_replay(
                where.settings, where.name, one, value, who=where.who, note=note
            )
        return _follow(action, where, [one], begin, told.outcome)

    return act


def discard(where: ActionTarget, selected: SelectedLetters, note: str) -> Act:
    """Return the action of `kstorm dlq discard`."""

    def act(_: BackgroundAction) -> str:
        with recorded(
            where.name, "discard", str(selected), said=note, who=where.who, settings=where.settings
        ) as told:
            letters = selected.letters(where.settings, where.name)
            check_discardable(where.name, letters)
            told.what = numbers_of(letters, selected.wanted.group)
            told.outcome = discard_all(where.settings, where.name, letters)
        return told.outcome

    return act


def why_no_edit(settings: Settings, outline: Outline, one: NumberedLetter) -> str:
    """Return why a dead letter cannot be edited, or ""."""
    by_kafka = one.letter.component in outline.readings
    why = why_not_editable(one, outline.name, exactly_once=outline.exactly_once, by_kafka=by_kafka)
    return why or "; ".join(replayable(settings, outline.name, [one], force=False)[1])


@contextmanager
def _recorded(where: ActionTarget, verb: str) -> Iterator[None]:
    with recorded(where.name, verb, who=where.who, settings=where.settings):
        yield


def _end_of_events(where: ActionTarget) -> int | None:
    there = bounds(where.settings, NamesOf(where.name).events_topic)
    return None if there is None else there[1]


def _follow(
    action: BackgroundAction,
    where: ActionTarget,
    letters: Sequence[NumberedLetter],
    begin: int | None,
    ordered: str,
) -> str:
    """Follow the spouts' events from offset `begin` on, and return the outcomes of the replays.

    The action itself is already finished, so that others may start.
    """
    action.end("done", ordered)
    if begin is None or not _following.acquire(blocking=False):
        return ordered
    try:
        for told in _outcomes(action, where, letters, begin):
            action.said = f"{ordered}: {told}"
    except KstormError as error:
        return f"{action.said}; the other outcomes are not known: {error}"
    finally:
        _following.release()
    return action.said


def _outcomes(
    action: BackgroundAction, where: ActionTarget, letters: Sequence[NumberedLetter], begin: int
) -> Iterator[str]:
    """Yield a description each time that more outcomes are known."""
    left = {f"{one.number} ({place_of(one.letter)})" for one in letters}
    ended, deadline = Counter[str](), monotonic() + _FOLLOW_SECS
    for record in follow_topic(where.settings, NamesOf(where.name).events_topic, begin):
        if action.closing or monotonic() > deadline:
            return
        value = record.value() if record is not None else None
        try:
            event = decode_event(value) if isinstance(value, bytes) else None
        except FrameError:
            continue
        if event is None or event.verb != "replay" or event.what not in left:
            continue
        left.remove(event.what)
        told = outcome_text(event.outcome)
        ended[told if len(letters) == 1 else told.partition(":")[0]] += 1
        yield (
            told
            if len(letters) == 1
            else ", ".join(f"{count:,} {outcome}" for outcome, count in ended.most_common())
        )
        if not left:
            return
