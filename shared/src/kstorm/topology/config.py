"""The settings of a topology: Storm's names in Python spelling."""

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from kstorm.errors import ConfigError

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"
GUARANTEES: Final = (AT_LEAST_ONCE, EXACTLY_ONCE)
"""The values of `topology_processing_guarantee`."""

FRAME_FORMATS: Final = {1, 2}
"""The frame formats that this release writes (the keys of `kstorm.core.wire.WRITERS`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings of a topology. A component may override some of them (`add_configurations`).

    Components may also have settings of their own, under any other names. Read these in `open` or
    `prepare`: `config["greeting"]`, `config.get("greeting", "hello")`. Raises `ConfigError` for a
    value of the wrong type or out of range, and for an unknown name that looks like a setting of
    kstorm.
    """

    topology_processing_guarantee: str = AT_LEAST_ONCE
    """`at_least_once`: the spout replays messages that fail or are lost, and a replay counts again.
    `exactly_once`: all effects of a message between source and sink count once, no matter what
    crashes. docs/concepts/guarantees.md explains the requirements and the cost. The setting applies to the
    whole topology, and components cannot override it."""

    topology_epoch_interval_ms: int = 100
    """With `exactly_once`, milliseconds from one epoch (a Kafka transaction) to the next, in each
    process. A tuple waits for about half of this time at each hop. Each transaction costs about 0.4
    ms of CPU in the process and as much in the broker."""

    topology_bolt_retry_limit: int = 3
    """With `exactly_once`, the number of times that a bolt retries a failed tuple before the tuple
    becomes a dead letter. 0 means no retries."""

    topology_bolt_retry_initial_delay_ms: float = 100.0
    """Milliseconds before the first retry."""

    topology_bolt_retry_delay_multiplier: float = 2.0
    """Factor, at least 1, by which the delay grows with each further retry."""

    topology_bolt_retry_delay_max_ms: float = 60_000.0
    """Longest delay before a retry, in milliseconds."""

    topology_message_timeout_secs: float = 30.0
    """Seconds after which a spout tuple fails if its tree is not complete (Storm: 30). Pending
    tuples are kept in a rotating map, so the failure comes after 1 to 1.5 times this time."""

    topology_enable_message_timeouts: bool = True
    """False disables timeouts of spout tuples (Storm's `topology.enable.message.timeouts`). A tree
    then ends only with an ack or a fail. Tuples that a crashing bolt held in memory are not
    replayed, so their message stays in flight until the spout's task restarts. Use it for tests,
    and for work of unlimited duration."""

    topology_acker_executors: int = 1
    """Acker processes (Storm: one per worker). 0 disables tracking: every spout tuple is acked as
    soon as it is emitted."""

    topology_acker_tasks: int = 4
    """Partitions of the acker topic, which limits the number of acker processes that can share the
    work. Fixed for the life of the topology. At least `topology_acker_executors`."""

    topology_max_spout_pending: int = 2000
    """Maximum number of spout tuples that a spout task may have in flight. Storm has no limit by
    default. kstorm's default is finite, because otherwise a stalled bolt would let the spout fill
    Kafka, and all of these tuples would time out."""

    topology_tick_tuple_freq_secs: float | None = None
    """Seconds between tick tuples to each bolt task. None sends none."""

    topology_debug: bool = False
    """Log every emit with its values. For development only: logging costs far more than the emit."""

    topology_sleep_spout_wait_strategy_time_ms: float = 1.0
    """Milliseconds that a spout task sleeps after `next_tuple` emitted nothing (Storm: 1). While
    nothing arrives, the pause doubles up to 16 times this value."""

    topology_state_checkpoint_interval_ms: int = 250
    """Milliseconds between checkpoints of stateful bolts (Storm: 1000). Their acks wait for the
    checkpoint. So this delays the completion of a tree, but not its results."""

    topology_acker_checkpoint_interval_ms: int = 1000
    """Milliseconds between checkpoints of the acker's ledger. With more than 5,000 open trees in a
    process the interval grows with their number, up to five times. After a crash, the next acker
    process applies at most the records of one interval again."""

    topology_commit_interval_ms: int = 200
    """Milliseconds between commits of a bolt's input offsets. After a kill, a bolt executes the
    input of at most this time again, plus the tuples in flight."""

    topology_frame_max_tuples: int = 4000
    """Maximum number of tuples in one frame (one Kafka record)."""

    topology_frame_max_bytes: int = 768 * 1024
    """Maximum number of bytes in one frame, below the broker's `message.max.bytes` (1 MiB). A
    single tuple above this limit fails."""

    topology_frame_format: int = 2
    """The frame format that processes write. Regardless of this setting, they read this release's
    format and the previous one. In format 2, tuples from several tasks share a frame. While
    processes of a release without format 2 still run, set 1. Raise the setting in a separate
    rollout, once every process has a release that reads the new format."""

    topology_watermark_interval_ms: int = 200
    """Milliseconds between two watermarks of a task, in topologies with event time. Watermarks that
    do not change are sent every 5 s."""

    topology_drain_timeout_secs: float = 20.0
    """Seconds that a stopping or moving spout task waits for its open trees, after it has stopped
    emitting."""

    topology_dead_letters_retention_secs: float | None = None
    """Seconds to keep dead letters. None keeps them forever. Takes effect when the topic is
    created."""

    topology_finished_retention_secs: float | None = 365 * 86400.0
    """Seconds to keep the ranges of finished offsets, which an audit needs. None keeps them
    forever. Takes effect when the topic is created."""

    topology_trace: float = 0.0
    """Share of trees, from 0 to 1, whose tuples record their anchors for later inspection. All
    processes select the same trees. In other trees, kstorm infers the anchors, which is ambiguous
    if a task received several tuples of a tree."""

    topology_trace_retention_hours: float = 24.0
    """Hours to keep frames of tuples, acks and completions in Kafka, so that a tree can be
    inspected later. At least 1. With `exactly_once` at least 24, because a tuple deleted before it
    is read is not sent again. Takes effect when the topics are created."""

    topology_session_timeout_ms: int = 6000
    """Milliseconds after which the tasks of a dead process move to another one. A process that
    returns earlier keeps its tasks (static membership). The tasks of a stopped process wait for the
    same time, unless the process knows that it will not return (`KSTORM_LEAVE_ON_STOP`,
    `KSTORM_STATEFUL_SET`)."""

    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The user's own settings: any name that is not a kstorm setting, any value. A component's
    settings are added to the topology's."""

    def __post_init__(self) -> None:
        for setting in _settings():
            value = getattr(self, setting.name)
            _check_type(setting, value)
            _check_range(setting.name, value)
        if self.topology_processing_guarantee not in GUARANTEES:
            raise ConfigError(
                f"topology_processing_guarantee is {self.topology_processing_guarantee!r}: it "
                f"must be one of {', '.join(map(repr, GUARANTEES))}; for best effort, set "
                "topology_acker_executors=0"
            )
        if self.topology_bolt_retry_delay_multiplier < 1:
            raise ConfigError(
                "topology_bolt_retry_delay_multiplier is "
                f"{self.topology_bolt_retry_delay_multiplier}: it must be at least 1"
            )
        if self.topology_trace > 1:
            raise ConfigError(
                f"topology_trace is {self.topology_trace:g}: it must be a share of the trees, "
                "from 0 to 1"
            )
        least = 24.0 if self.exactly_once else 1.0
        if self.topology_trace_retention_hours < least:
            raise ConfigError(
                f"topology_trace_retention_hours is {self.topology_trace_retention_hours:g}: it "
                f"must be at least {least:g}, so that no tuple is deleted before it is read"
            )
        if self.topology_frame_format not in FRAME_FORMATS:
            known = " or ".join(map(str, sorted(FRAME_FORMATS)))
            raise ConfigError(
                f"topology_frame_format is {self.topology_frame_format}: this release writes "
                f"{known}; to write a newer format, upgrade every process first"
            )
        if not isinstance(self.own, Mapping):
            raise ConfigError(
                f"own is a {type(self.own).__name__}: it must be a dict of settings by name"
            )
        for name in self.own:
            _check_own(name)
        object.__setattr__(self, "own", dict(self.own))

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting of kstorm or the user, or `default` if it does not exist."""
        return getattr(self, name) if name in _names() else self.own.get(name, default)

    def __getitem__(self, name: str) -> Any:
        """Return a setting as `get` does. Raises `KeyError` if it does not exist."""
        if name not in self:
            raise KeyError(
                f"no setting {name!r}: your own settings are "
                f"{', '.join(map(str, self.own)) or 'none'}"
            )
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in _names()

    @property
    def exactly_once(self) -> bool:
        """True with exactly-once processing."""
        return self.topology_processing_guarantee == EXACTLY_ONCE

    @property
    def acker_tasks(self) -> int:
        """Number of acker tasks. 0 when tracking is disabled."""
        if self.topology_acker_executors == 0:
            return 0
        return max(self.topology_acker_tasks, self.topology_acker_executors)

    @property
    def message_timeout_secs(self) -> float:
        """The message timeout in seconds. Infinite if `topology_enable_message_timeouts` is False."""
        return (
            self.topology_message_timeout_secs
            if self.topology_enable_message_timeouts
            else math.inf
        )

    def override(self, **changes: Any) -> "Config":
        """Return a copy with some settings changed. Other names become the user's own settings.

        Raises the same errors as the class.
        """
        known = _names()
        ours = {name: value for name, value in changes.items() if name in known}
        own = {
            name: value for name, value in changes.items() if name not in known and name != "own"
        }
        given = changes.get("own", {})
        if isinstance(given, Mapping):
            given = {**self.own, **given, **own}
        return dataclasses.replace(self, **ours, own=given)


@cache
def _settings() -> "list[dataclasses.Field[Any]]":
    """Return kstorm's own settings."""
    return [setting for setting in dataclasses.fields(Config) if setting.name != "own"]


@cache
def _names() -> frozenset[str]:
    return frozenset(setting.name for setting in _settings())


# Includes Storm's spelling: topology.debug, TOPOLOGY_DEBUG.
_LOOKS_LIKE_OURS = re.compile(r"topology[^a-z]", re.IGNORECASE)


def _check_own(name: object) -> None:
    """Raise `ConfigError` for a name that is probably a misspelt kstorm setting."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{name!r} is not the name of a setting: use a string")
    known = sorted(_names())
    spelt = re.sub("[^a-z0-9]", "_", name.lower())
    close = get_close_matches(spelt, known, 1, 0.75 if _LOOKS_LIKE_OURS.match(name) else 0.9)
    if name in known:
        raise ConfigError(f"own has {name!r}, which is a kstorm setting: pass it to Config itself")
    if close or _LOOKS_LIKE_OURS.match(name):
        meant = f"did you mean {close[0]!r}? The" if close else "the"
        raise ConfigError(f"there is no setting {name!r}: {meant} settings are {', '.join(known)}")


_MOST = 2**31 - 1  # limit of the Kafka clients; 24 days in milliseconds
_MAY_BE_ZERO = {
    "topology_acker_executors",
    "topology_bolt_retry_initial_delay_ms",
    "topology_bolt_retry_limit",
    "topology_debug",
    "topology_enable_message_timeouts",
    "topology_sleep_spout_wait_strategy_time_ms",
    "topology_trace",
}
_KINDS: dict[Any, tuple[type, ...]] = {float: (int, float), int: (int,), bool: (bool,), str: (str,)}


def _check_type(setting: "dataclasses.Field[Any]", value: Any) -> None:
    optional = setting.type == float | None
    if optional and value is None:
        return
    kind: Any = float if optional else setting.type
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind is not bool):
        # Python refuses to print very long integers.
        shown = "a huge number" if type(value) is int and abs(value) > _MOST else repr(value)
        raise ConfigError(
            f"{setting.name} is {shown}: it must be "
            f"{'a number' if kind is float else kind.__name__}"
        )


def _check_range(name: str, value: float | str | None) -> None:
    if value is None or isinstance(value, str):
        return
    if not isinstance(value, int) and not math.isfinite(value):
        raise ConfigError(f"{name} is {value}: it must be a finite number")
    if value > _MOST:  # the number itself may be too long to print
        raise ConfigError(f"{name} is above {_MOST}, which is its maximum")
    if value < -_MOST:
        raise ConfigError(f"{name} is below 0")
    if value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        raise ConfigError(
            f"{name} is {value}: it must be {'0 or more' if name in _MAY_BE_ZERO else 'above 0'}"
        )
