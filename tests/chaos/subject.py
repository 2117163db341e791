"""The topologies that can be broken, and what of each may be broken how."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT
from tests.chaos import streams
from tests.chaos import topology as word_count
from tests.chaos.audit import audit
from tests.chaos.events import bad_event, event, last_events
from tests.chaos.evidence import Evidence
from tests.chaos.feed import Posted, last_messages, message
from tests.chaos.findings import ChaosFindings, Parted
from tests.chaos.streams_audit import NOWHERE, audit_streams

WORD_COUNT: Final = "wordcount"
ALL_STREAMS: Final = "all"


@dataclass(frozen=True)
class Subject:
    """One of them."""

    name: str
    """As the command line has it."""
    topology: Callable[[], Topology]
    """Makes it, of the environment."""
    reference: str
    """What the services load."""
    offsets_path: str
    """Where ZooKeeper has the spout's offsets."""
    roles: Mapping[str, Sequence[str]]
    """What a user calls the parts, and the components that they are."""
    scaled: Sequence[str]
    """Components that may have three processes."""
    stateful: Sequence[str]
    """Roles whose processes lose their disks."""
    small_disk: str
    """The process whose data are on a disk of their own, which is small."""
    behind_proxy: Sequence[str]
    """Processes that reach Kafka through a proxy."""
    framed: Sequence[str]
    """Bolts that are sent what is no frame."""
    sinks: Sequence[str]
    """Topics that it writes."""
    message: Callable[[int, float], str]
    """The message of a number, with so many a second."""
    bad: Callable[[str, str], str]
    """The message with an id and a text."""
    last: Callable[[int, float], Sequence[Posted]]
    """The messages that follow so many others when all is finished."""
    raising: Parted
    """What becomes of a message on which bolts raise."""
    large: Parted | None
    """And of one of which a tuple is too large; None if it has no bolt that makes one."""
    audit: Callable[[Evidence], ChaosFindings]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the topology reads there."""
    once_only: bool = False
    """Whether it must be processed exactly once."""


def _audit_words(evidence: Evidence) -> ChaosFindings:
    return audit(
        evidence.source,
        evidence.records(word_count.WORDS),
        evidence.records(word_count.JOINED),
        evidence.letters,
        poison=evidence.poison,
        parted=evidence.parted,
        last=evidence.last,
        offsets=evidence.offsets,
        ends=evidence.ends,
    )


_WORD_COUNT: Final = Subject(
    name=WORD_COUNT,
    topology=word_count.topology,
    reference=word_count.REFERENCE,
    offsets_path=f"{word_count.ZK_ROOT}/{word_count.NAME}",
    roles={
        "spout": ("messages",),
        "split": ("split",),
        "count": ("count",),
        "join": ("join",),
        "sink": ("words", "joined"),
        "acker": (ACKER_COMPONENT,),
    },
    scaled=("split", "count", "join"),
    stateful=("count", "acker"),
    small_disk="count-1",
    behind_proxy=("messages-0", "split-0", "count-0", "join-0", "words-0", "acker-0"),
    framed=("split", "count", "joined"),
    sinks=(word_count.WORDS, word_count.JOINED),
    message=message,
    bad=lambda id, text: f"{id} {text}",
    last=last_messages,
    raising=Parted(
        frozenset({"join"}), (("check", True), ("join", True))
    ),  # the join gives the other half up
    large=Parted(frozenset({"word 1"}), (("split", False),)),
    audit=_audit_words,
)

_PARTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    streams.TRIDENT: {"split": ("split",), "count": ("count",), "sink": ("sink",)},
    streams.WINDOW: {"window": ("windows", "spans"), "sink": ("told",)},
    streams.JOIN: {"split": ("left", "right"), "join": ("joined", "paired"), "sink": ("told",)},
}
"""By branch, its roles."""
_FIRST: Final = {
    streams.TRIDENT: ("split",),
    streams.WINDOW: ("windows", "spans"),
    streams.JOIN: ("left", "right"),
}
"""By branch, who raises on a bad message."""
_SCALED: Final = ("split", "count", "windows", "spans", "joined", "paired")
_STATEFUL: Final = ("count", "window", "join")


def _streams(name: str, small_disk: str, *branches: str) -> Subject:
    roles: dict[str, Sequence[str]] = {"spout": ("messages",)}
    for branch in branches:
        for role, components in _PARTS[branch].items():
            roles[role] = tuple(dict.fromkeys([*roles.get(role, ()), *components]))
    roles["acker"] = (ACKER_COMPONENT,)
    components = [
        component
        for role, some in roles.items()
        if role not in ("spout", "acker")
        for component in some
    ]
    return Subject(
        name=name,
        topology=streams.topology,
        reference=streams.REFERENCE,
        offsets_path=streams.OFFSETS_PATH,
        roles=roles,
        scaled=[component for component in _SCALED if component in components],
        stateful=[*(role for role in _STATEFUL if role in roles), "acker"],
        small_disk=small_disk,
        behind_proxy=["messages-0", *(f"{component}-0" for component in components), "acker-0"],
        framed=components,
        sinks=(streams.COUNTS, streams.TOLD),
        message=event,
        bad=bad_event,
        last=last_events,
        raising=Parted(
            frozenset({NOWHERE}),
            tuple((first, True) for branch in branches for first in _FIRST[branch]),
        ),
        large=Parted(frozenset(), (("split", False),)) if streams.TRIDENT in branches else None,
        audit=partial(audit_streams, branches=branches),
        environment={streams.BRANCHES_VARIABLE: ",".join(branches)},
        once_only=True,
    )


SUBJECTS: Final[Mapping[str, Subject]] = {
    subject.name: subject
    for subject in (
        _WORD_COUNT,
        _streams(streams.TRIDENT, "count-1", streams.TRIDENT),
        _streams(streams.WINDOW, "windows-1", streams.WINDOW),
        _streams(streams.JOIN, "joined-0", streams.JOIN),
        _streams(ALL_STREAMS, "count-1", *streams.BRANCHES),
    )
}
"""By name."""
