"""The settings of a topology, under Storm's names in Python spelling."""

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
"""What `topology_processing_guarantee` may be."""

FRAME_FORMATS: Final = {1}
"""The formats of frames that this release writes: those of `kstorm.core.wire.WRITERS`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings of a topology; a component may override some (`add_configurations`).

    Components may be given settings of their own too, under any other names; they read them in `open` or `prepare`:
    `config["greeting"]`, `config.get("greeting", "hello")`. Raises `ConfigError` on a value of the wrong type or out of
    range, and on a name that looks like a setting of kstorm's and is none.
    """

    topology_processing_guarantee: str = AT_LEAST_ONCE
    """`at_least_once`: what fails or is lost is replayed from the spout, and counts again. `exactly_once`: everything that a
    message causes between source and sink counts once, whatever dies; see docs/guarantees.md for what it asks of the
    topology and what it costs. It is the whole topology's, and no component's."""

    topology_epoch_interval_ms: int = 100
    """With `exactly_once`, milliseconds from one epoch (a transaction of Kafka's) to the next, in each process. A tuple waits for
    about half of it at each hop; each transaction costs some 0.4 ms of CPU here and as much at the broker."""

    topology_bolt_retry_limit: int = 3
    """With `exactly_once`, how often a tuple is tried again by the bolt that failed it, before it becomes a dead letter; 0 for
    not at all."""

    topology_bolt_retry_initial_delay_ms: float = 100.0
    """Milliseconds before the first retry."""

    topology_bolt_retry_delay_multiplier: float = 2.0
    """By what the pause grows with each further retry; at least 1."""

    topology_bolt_retry_delay_max_ms: float = 60_000.0
    """The longest pause before a retry."""

    topology_message_timeout_secs: float = 30.0
    """Seconds after which a spout tuple whose tree is not complete fails (Storm: 30). It fails between this and 1.5
    times this, as pending tuples are kept in a rotating map."""

    topology_enable_message_timeouts: bool = True
    """Whether spout tuples time out at all (Storm's `topology.enable.message.timeouts`). Without, a tree ends only when it is
    acked or failed: what a dying bolt held in memory is never replayed, and its message stays in flight until the
    spout's task starts anew. For tests, and for work that takes as long as it takes."""

    topology_acker_executors: int = 1
    """Acker processes. 0 turns tracking off: every spout tuple is acked as soon as it is emitted (Storm: one a worker)."""

    topology_acker_tasks: int = 4
    """Partitions of the acker topic, fixed for the life of the topology: the most acker processes that can ever share
    the work. At least `topology_acker_executors`."""

    topology_max_spout_pending: int = 2000
    """Most spout tuples that one spout task may have in flight. Storm's default is no limit; here it is finite, since
    a stalled bolt would otherwise fill Kafka and then time everything out."""

    topology_tick_tuple_freq_secs: float | None = None
    """Seconds between tick tuples to each bolt task; None sends none."""

    topology_debug: bool = False
    """Log every emit with its values. For development: it costs far more than the emit."""

    topology_sleep_spout_wait_strategy_time_ms: float = 1.0
    """Milliseconds a spout task rests after `next_tuple` emitted nothing (Storm: 1); doubles up to 16 times that while
    nothing comes."""

    topology_state_checkpoint_interval_ms: int = 250
    """Milliseconds between checkpoints of stateful bolts (Storm: 1000). Their acks wait for the checkpoint, so this adds
    to the time a tree stays open, not to the time its results take."""

    topology_acker_checkpoint_interval_ms: int = 1000
    """Milliseconds between checkpoints of the acker's ledger. What an acker process must apply again after a crash is
    at most this much."""

    topology_commit_interval_ms: int = 200
    """Milliseconds between commits of a bolt's input offsets. What a killed bolt executes again is at most this much and
    what was in flight."""

    topology_frame_max_tuples: int = 4000
    """Most tuples in one frame (one Kafka record)."""

    topology_frame_max_bytes: int = 768 * 1024
    """Most bytes in one frame; below the broker's `message.max.bytes` (1 MiB). A single tuple larger than this fails."""

    topology_frame_format: int = 1
    """The format of the frames that processes write; they read it and the one before, whatever is set here. Raise it in a
    rollout of its own, when every process has a release that reads the new format."""

    topology_drain_timeout_secs: float = 20.0
    """Seconds that a spout task being stopped or moved waits for its open trees, having stopped to emit."""

    topology_dead_letters_retention_secs: float | None = None
    """Seconds for which dead letters are kept; None keeps them for ever. It counts when their topic is made."""

    topology_finished_retention_secs: float | None = 365 * 86400.0
    """Seconds for which the ranges of finished offsets are kept, which an audit needs; None keeps them for ever. It counts when
    their topic is made."""

    topology_trace: float = 0.0
    """The share of trees, from 0 to 1, whose tuples say to which tuples they are anchored, for who looks at them afterwards. Of the
    others that is worked out, and may be ambiguous where a task got several tuples of a tree. All processes agree on the trees."""

    topology_trace_retention_hours: float = 24.0
    """Hours for which the frames of tuples, acks and completions are kept once they are read, so that a tree can be looked at
    afterwards: at least 1, and with `exactly_once` at least 24, since a tuple that is deleted before it is read is not sent again.
    It counts when their topics are made."""

    topology_session_timeout_ms: int = 6000
    """Milliseconds after which the tasks of a dead process move to another. A process that is back sooner keeps its
    tasks (static membership). Those of a process that is stopped wait as long, unless it knows that it does not come back
    (`KSTORM_LEAVE_ON_STOP`, `KSTORM_STATEFUL_SET`)."""

    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the user's own, by name: any name but a setting's, any value. A component's are added to the topology's."""

    def __post_init__(self) -> None:
        for setting in _settings():
            value = getattr(self, setting.name)
            _check_type(setting, value)
            _check_range(setting.name, value)
        if self.topology_processing_guarantee not in GUARANTEES:
            raise ConfigError(
                f"topology_processing_guarantee is {self.topology_processing_guarantee!r}: it must be one of "
                f"{', '.join(map(repr, GUARANTEES))}; for best effort, set topology_acker_executors=0"
            )
        if self.topology_bolt_retry_delay_multiplier < 1:
            raise ConfigError(
                f"topology_bolt_retry_delay_multiplier is {self.topology_bolt_retry_delay_multiplier}: it must be at least 1"
            )
        if self.topology_trace > 1:
            raise ConfigError(
                f"topology_trace is {self.topology_trace:g}: it is a share of the trees, from 0 to 1"
            )
        least = 24.0 if self.exactly_once else 1.0
        if self.topology_trace_retention_hours < least:
            raise ConfigError(
                f"topology_trace_retention_hours is {self.topology_trace_retention_hours:g}: it must be at least {least:g}, so "
                "that no tuple is deleted before it is read"
            )
        if self.topology_frame_format not in FRAME_FORMATS:
            known = " or ".join(map(str, sorted(FRAME_FORMATS)))
            raise ConfigError(
                f"topology_frame_format is {self.topology_frame_format}: this kstorm writes {known}; a newer format needs a "
                "newer release on every process first"
            )
        if not isinstance(self.own, Mapping):
            raise ConfigError(
                f"own is a {type(self.own).__name__}: it must be a dict of settings by name"
            )
        for name in self.own:
            _check_own(name)
        object.__setattr__(self, "own", dict(self.own))

    def get(self, name: str, default: Any = None) -> Any:
        """A setting, of kstorm's or of the user's own; `default` if there is none of that name."""
        return getattr(self, name) if name in _names() else self.own.get(name, default)

    def __getitem__(self, name: str) -> Any:
        """As `get`; raises `KeyError` if there is no such setting."""
        if name not in self:
            raise KeyError(
                f"no setting {name!r}: of one's own there are {', '.join(map(str, self.own)) or 'none'}"
            )
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in _names()

    @property
    def exactly_once(self) -> bool:
        """Whether everything counts once."""
        return self.topology_processing_guarantee == EXACTLY_ONCE

    @property
    def acker_tasks(self) -> int:
        """Acker tasks that this configuration asks for; 0 when tracking is off."""
        if self.topology_acker_executors == 0:
            return 0
        return max(self.topology_acker_tasks, self.topology_acker_executors)

    @property
    def message_timeout_secs(self) -> float:
        """The message timeout; infinite where `topology_enable_message_timeouts` is off."""
        return (
            self.topology_message_timeout_secs
            if self.topology_enable_message_timeouts
            else math.inf
        )

    def override(self, **changes: Any) -> "Config":
        """A copy with some settings changed; those that are none of kstorm's are the user's own. Raises `ConfigError` as
        the class does."""
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
    """Kstorm's own settings."""
    return [setting for setting in dataclasses.fields(Config) if setting.name != "own"]


@cache
def _names() -> frozenset[str]:
    return frozenset(setting.name for setting in _settings())


_LOOKS_LIKE_OURS = re.compile(
    r"topology[^a-z]", re.IGNORECASE
)  # Storm's spelling too: topology.debug, TOPOLOGY_DEBUG


def _check_own(name: object) -> None:
    """Refuses what is probably a setting of kstorm's, spelt wrongly."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{name!r} is not the name of a setting: use a string")
    known = sorted(_names())
    spelt = re.sub("[^a-z0-9]", "_", name.lower())
    close = get_close_matches(spelt, known, 1, 0.75 if _LOOKS_LIKE_OURS.match(name) else 0.9)
    if name in known:
        raise ConfigError(
            f"own has {name!r}, which is a setting of kstorm's: give it to Config itself"
        )
    if close or _LOOKS_LIKE_OURS.match(name):
        meant = f"did you mean {close[0]!r}? The" if close else "the"
        raise ConfigError(f"there is no setting {name!r}: {meant} settings are {', '.join(known)}")


_MOST = 2**31 - 1  # what the clients under us take; 24 days in milliseconds
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
        shown = (
            "a huge number" if type(value) is int and abs(value) > _MOST else repr(value)
        )  # Python prints not all
        raise ConfigError(
            f"{setting.name} is {shown}: it must be {'a number' if kind is float else kind.__name__}"
        )


def _check_range(name: str, value: float | str | None) -> None:
    if value is None or isinstance(value, str):
        return
    if not isinstance(value, int) and not math.isfinite(value):
        raise ConfigError(f"{name} is {value}: it must be a finite number")
    if value > _MOST:  # the number itself may be too long to print
        raise ConfigError(f"{name} is above {_MOST}, which is the most that it may be")
    if value < -_MOST:
        raise ConfigError(f"{name} is below 0")
    if value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        raise ConfigError(
            f"{name} is {value}: it must be {'0 or more' if name in _MAY_BE_ZERO else 'above 0'}"
        )
