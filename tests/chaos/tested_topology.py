"""The topologies under test, and what can be broken in each."""

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
from tests.chaos.feed import PostedMessage, last_messages, message
from tests.chaos.findings import ChaosFindings, PartlyFailed
from tests.chaos.streams_audit import NOWHERE, audit_streams

WORD_COUNT: Final = "wordcount"
ALL_STREAMS: Final = "all"


@dataclass(frozen=True)
class TestedTopology:
    name: str
    """The name on the command line."""
    topology: Callable[[], Topology]
    """Builds the topology from the environment."""
    reference: str
    """The reference that the services load."""
    offsets_path: str
    """ZooKeeper's path of the spout's offsets."""
    roles: Mapping[str, Sequence[str]]
    """The components of each role. Roles are a user's names for the parts."""
    scaled: Sequence[str]
    """Components that may have three processes."""
    stateful: Sequence[str]
    """Roles whose processes can lose their disks."""
    small_disk: str
    """The process whose data are on a separate small disk."""
    behind_proxy: Sequence[str]
    """Processes that reach Kafka through a proxy."""
    framed: Sequence[str]
    """Bolts that receive invalid frames."""
    sinks: Sequence[str]
    """The output topics."""
    message: Callable[[int, float], str]
    """Returns the message with a number, at a rate per second."""
    bad: Callable[[str, str], str]
    """Returns a message with an id and a text."""
    last: Callable[[int, float], Sequence[PostedMessage]]
    """Returns the messages to post when all others (their number, their rate) are finished."""
    raising: PartlyFailed
    """Expected outcome of a message on which bolts raise."""
    large: PartlyFailed | None
    """Expected outcome of a message with a tuple that is too large. None if no bolt emits one."""
    audit: Callable[[Evidence], ChaosFindings]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the topology reads."""
    once_only: bool = False
    """True if it must be processed exactly once."""


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


_WORD_COUNT: Final = TestedTopology(
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
    # The join gives up the other half.
    raising=PartlyFailed(frozenset({"join"}), (("check", True), ("join", True))),
    large=PartlyFailed(frozenset({"word 1"}), (("split", False),)),
    audit=_audit_words,
)

_PARTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    streams.TRIDENT: {"split": ("split",), "count": ("count",), "sink": ("sink",)},
    streams.WINDOW: {"window": ("windows", "spans"), "sink": ("told",)},
    streams.JOIN: {"split": ("left", "right"), "join": ("joined", "paired"), "sink": ("told",)},
}
"""The roles of each branch."""
_FIRST: Final = {
    streams.TRIDENT: ("split",),
    streams.WINDOW: ("windows", "spans"),
    streams.JOIN: ("left", "right"),
}
"""The components of each branch that raise on a bad message."""
_SCALED: Final = ("split", "count", "windows", "spans", "joined", "paired")
_STATEFUL: Final = ("count", "window", "join")


def _streams(name: str, small_disk: str, *branches: str) -> TestedTopology:
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
    return TestedTopology(
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
        raising=PartlyFailed(
            frozenset({NOWHERE}),
            tuple((first, True) for branch in branches for first in _FIRST[branch]),
        ),
        large=PartlyFailed(frozenset(), (("split", False),))
        if streams.TRIDENT in branches
        else None,
        audit=partial(audit_streams, branches=branches),
        environment={streams.BRANCHES_VARIABLE: ",".join(branches)},
        once_only=True,
    )


SUBJECTS: Final[Mapping[str, TestedTopology]] = {
    subject.name: subject
    for subject in (
        _WORD_COUNT,
        _streams(streams.TRIDENT, "count-1", streams.TRIDENT),
        _streams(streams.WINDOW, "windows-1", streams.WINDOW),
        _streams(streams.JOIN, "joined-0", streams.JOIN),
        _streams(ALL_STREAMS, "count-1", *streams.BRANCHES),
    )
}
