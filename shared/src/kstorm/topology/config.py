"""The settings of a topology, under Storm's names in Python spelling."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from kstorm.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings of a topology; a component may override some (`add_configurations`).

    Raises `ConfigError` on a value of the wrong type or out of range.
    """

    topology_message_timeout_secs: float = 30.0
    """Seconds after which a spout tuple whose tree is not complete fails (Storm: 30). It fails between this and 1.5
    times this, as pending tuples are kept in a rotating map."""

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

    topology_drain_timeout_secs: float = 20.0
    """Seconds that a spout task being stopped or moved waits for its open trees, having stopped to emit."""

    topology_session_timeout_ms: int = 6000
    """Milliseconds after which the tasks of a dead process move to another. A process that is back sooner keeps its
    tasks (static membership). Those of a process that is stopped wait as long, unless `KSTORM_LEAVE_ON_STOP` is true."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            _check_type(field, value)
            _check_range(field.name, value)

    @property
    def acker_tasks(self) -> int:
        """Acker tasks that this configuration asks for; 0 when tracking is off."""
        if self.topology_acker_executors == 0:
            return 0
        return max(self.topology_acker_tasks, self.topology_acker_executors)

    def override(self, **changes: Any) -> "Config":
        """A copy with some fields changed; raises `ConfigError` for a name that is no field."""
        known = {field.name for field in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                raise ConfigError(f"there is no setting {name!r}: the settings are {', '.join(sorted(known))}")
        return dataclasses.replace(self, **changes)


_MOST = 2**31 - 1  # what the clients under us take; 24 days in milliseconds
_MAY_BE_ZERO = {"topology_acker_executors", "topology_debug", "topology_sleep_spout_wait_strategy_time_ms"}
_KINDS: dict[Any, tuple[type, ...]] = {float: (int, float), int: (int,), bool: (bool,)}


def _check_type(field: "dataclasses.Field[Any]", value: Any) -> None:
    optional = field.type == float | None
    if optional and value is None:
        return
    kind: Any = float if optional else field.type
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind is not bool):
        shown = "a huge number" if type(value) is int and abs(value) > _MOST else repr(value)  # Python prints not all
        raise ConfigError(f"{field.name} is {shown}: it must be {'a number' if kind is float else kind.__name__}")


def _check_range(name: str, value: float | None) -> None:
    if value is None:
        return
    if not isinstance(value, int) and not math.isfinite(value):
        raise ConfigError(f"{name} is {value}: it must be a finite number")
    if value > _MOST:  # the number itself may be too long to print
        raise ConfigError(f"{name} is above {_MOST}, which is the most that it may be")
    if value < -_MOST:
        raise ConfigError(f"{name} is below 0")
    if value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        raise ConfigError(f"{name} is {value}: it must be {'0 or more' if name in _MAY_BE_ZERO else 'above 0'}")
