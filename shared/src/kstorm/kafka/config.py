"""The settings of a `KafkaSpout`: Storm's names in Python spelling.

scheme = SchemeAsMultiScheme(StringScheme())
SpoutConfig(KafkaHosts(), "sentences", "/kafka-spouts", "wordcount", scheme=scheme)
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from kstorm.errors import ConfigError
from kstorm.fitting import Text, check_fields, fits
from kstorm.kafka.hosts import BrokerHosts, StaticHosts
from kstorm.kafka.message_limits import MOST_MESSAGE_BYTES
from kstorm.kafka.retry_manager import FailedMessageRetryManager
from kstorm.kafka.scheme import MultiScheme, RawMultiScheme, check_multi_scheme
from kstorm.topology import DEFAULT_STREAM, Tuple

SPOUTS_OWN_PROPERTIES: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
"""librdkafka consumer properties that users cannot change. The spout itself manages its offsets and
handles an offset that is out of range."""

EARLIEST_TIME: Final = -2
"""`start_offset_time`: start at the oldest message in the topic."""
LATEST_TIME: Final = -1
"""`start_offset_time`: start at messages written from now on."""


class ProcessingGuarantee(Enum):
    """The delivery guarantee of a `KafkaSpout` (storm-kafka-client's `ProcessingGuarantee`)."""

    AT_LEAST_ONCE = auto()
    """The stored offset never passes an unfinished message. Failed messages are emitted again."""

    AT_MOST_ONCE = auto()
    """The spout emits a message only after ZooKeeper has an offset beyond it. So no message is
    emitted twice, even after a crash, and failed or lost messages are not emitted again. The spout
    emits nothing while ZooKeeper is unreachable, and each batch costs one write there. Tuple trees
    are not tracked, so `topology_max_spout_pending` does not limit the spout."""

    NO_GUARANTEE = auto()
    """A message is finished as soon as it is emitted. The offset is stored every
    `state_update_interval_ms`. Failed messages are lost. After a crash, messages emitted since the
    last write are emitted again. Tuple trees are not tracked."""


_CHECKED_BELOW: Final = ("hosts", "processing_guarantee", "start_offset_time", "zk_servers")
"""Fields whose own checks name the possible values."""


@dataclass(frozen=True)
class KafkaConfig:
    """The source topic and how to read it. Raises `ConfigError` if a value is out of range."""

    hosts: BrokerHosts
    """`KafkaHosts`, `ZkHosts` or `StaticHosts`, which find the brokers and partitions."""

    topic: str
    """The topic to read, or a regular expression with `kafka_topic_wildcard_match`."""

    kafka_topic_wildcard_match: bool = field(default=False, kw_only=True)
    """Treat `topic` as a regular expression and read every topic whose whole name matches (Storm's
    `kafka.topic.wildcard.match`). New topics are found at the next refresh. The topology's own
    topics and topics that begin with `__` are never read."""

    client_id: str = field(default="", kw_only=True)
    """Name of the client in the brokers' logs and quotas. Default: the spout's `id`."""

    fetch_size_bytes: int = field(default=1024 * 1024, kw_only=True)
    """Maximum bytes per partition and fetch (librdkafka's `fetch.message.max.bytes`). A larger
    message is still fetched, on its own."""

    socket_timeout_ms: int = field(default=10_000, kw_only=True)
    """Milliseconds until a request to a broker times out (`socket.timeout.ms`). The effective value
    is at least one second more than `fetch_max_wait`."""

    fetch_max_wait: int = field(default=500, kw_only=True)
    """Maximum milliseconds that a broker delays its response while there are no new messages
    (`fetch.wait.max.ms`). Brokers return new messages immediately, regardless of this value.
    Storm's default is 10,000. kstorm's is lower, because one connection serves all partitions of a
    broker, and a newly assigned partition waits for the pending fetch (up to 8.5 s in a test)."""

    buffer_size_bytes: int = field(default=1024 * 1024, kw_only=True)
    """Bytes of the socket receive buffer (`socket.receive.buffer.bytes`). 0: system default."""

    scheme: MultiScheme = field(default_factory=RawMultiScheme, kw_only=True)
    """Converts messages to tuples. Default: the raw value in the field `bytes`."""

    max_message_bytes: int = field(default=MOST_MESSAGE_BYTES, kw_only=True)
    """Maximum bytes of a message, including its key if the scheme reads it. A longer message is not
    passed to the scheme. It becomes a dead letter that contains its beginning. The limit is needed
    because a compressed batch of 2 kB may hold a message of 60 MB."""

    ignore_zk_offsets: bool = field(default=False, kw_only=True)
    """Start a new deployment of the topology (another `KSTORM_TOPOLOGY_ID`) at `start_offset_time`
    even if an offset is stored. Restarted processes of the same deployment always resume."""

    start_offset_time: int = field(default=EARLIEST_TIME, kw_only=True)
    """Start of a partition without a stored offset: `EARLIEST_TIME`, `LATEST_TIME` or a Unix time
    in ms. With `LATEST_TIME`, a partition or topic that is created later starts at its beginning.
    """

    max_offset_behind: int | None = field(default=None, kw_only=True)
    """Maximum distance in offsets. If a stored offset is further behind the offset of
    `start_offset_time`, the partition starts there instead. A failed message that is further behind
    the newest emitted message becomes a dead letter. None: no limit."""

    use_start_offset_time_if_offset_out_of_range: bool = field(default=True, kw_only=True)
    """Start again at `start_offset_time` if the broker does not have the offset to read from (the
    data expired or the topic was recreated). If False, report an error and do not read the
    partition until the offset exists."""

    metrics_time_bucket_size_in_secs: int = field(default=60, kw_only=True)
    """Seconds between log lines with the metrics of a task (`KafkaSpout.metrics`). 0: none. The
    metrics are always available at `/metrics`."""

    kafka_properties: Mapping[str, str | int | float | bool] = field(
        default_factory=dict, kw_only=True, repr=False
    )
    """Further librdkafka consumer properties, e.g. for TLS and SASL. They override the fields
    above. Properties in `SPOUTS_OWN_PROPERTIES` are rejected unless they have the value there."""

    def __post_init__(self) -> None:
        check_multi_scheme(self.scheme)
        check_fields(self, but=_CHECKED_BELOW)
        if not self.topic:
            raise ConfigError("the spout config has no topic: name the topic to read")
        if not isinstance(self.hosts, BrokerHosts):
            raise ConfigError(
                f"hosts is {self.hosts!r}: it must be KafkaHosts('host:port,…'), ZkHosts or "
                "StaticHosts"
            )
        self._check_topic()
        self._check_properties()
        for name in (
            "fetch_size_bytes",
            "socket_timeout_ms",
            "fetch_max_wait",
            "max_message_bytes",
        ):
            _check_at_least(name, getattr(self, name), 1)
        for name in ("buffer_size_bytes", "metrics_time_bucket_size_in_secs"):
            _check_at_least(name, getattr(self, name), 0)
        _check_at_least("start_offset_time", self.start_offset_time, EARLIEST_TIME)
        if self.max_offset_behind is not None:
            _check_at_least("max_offset_behind", self.max_offset_behind, 0)

    def _check_properties(self) -> None:
        for name, value in SPOUTS_OWN_PROPERTIES.items():
            asked = self.kafka_properties.get(name, value)
            if str(asked).lower() != str(value).lower():
                raise ConfigError(
                    f"kafka_properties has {name}={asked!r}, but it must be {str(value).lower()}: "
                    "the spout stores its offsets itself, see processing_guarantee, "
                    "start_offset_time and use_start_offset_time_if_offset_out_of_range"
                )

    def _check_topic(self) -> None:
        hosts, topic = self.hosts, self.topic
        if self.kafka_topic_wildcard_match:
            try:
                re.compile(topic)
            except re.error as error:
                raise ConfigError(
                    f"topic is {topic!r}, which is not a regular expression: {error}"
                ) from None
        if isinstance(hosts, StaticHosts):
            if self.kafka_topic_wildcard_match:
                raise ConfigError(
                    "StaticHosts cannot find topics: with kafka_topic_wildcard_match, use "
                    "KafkaHosts or ZkHosts"
                )
            if hosts.partition_information.topic != topic:
                raise ConfigError(
                    f"topic is {topic!r}, but StaticHosts has the partitions of "
                    f"{hosts.partition_information.topic!r}: name the same topic in both"
                )


@dataclass(frozen=True)
class SpoutConfig(KafkaConfig):
    """A `KafkaConfig` plus the spout's own settings."""

    zk_root: str = ""
    """The ZooKeeper node for offsets: `<zk_root>/<id>/partition_<n>`, or with a regular expression
    `<zk_root>/<id>/<topic>/partition_<n>`. "": ZooKeeper's root."""

    id: str = ""
    """Required. Identifies this spout as a reader of the topic. It names the node under `zk_root`
    and the consumer group that shows the lag. Do not change it between deployments, because the
    spout would not find its stored offsets. It must be unique per spout."""

    zk_servers: Sequence[str] | None = field(default=None, kw_only=True)
    """Hosts of the offsets' ZooKeeper. None: the service's own (`KSTORM_ZOOKEEPER`)."""

    zk_port: int = field(default=2181, kw_only=True)
    """Default port of `zk_servers`."""

    processing_guarantee: ProcessingGuarantee = field(
        default=ProcessingGuarantee.AT_LEAST_ONCE, kw_only=True
    )
    """Retry settings and `max_uncommitted_offsets` apply only to `AT_LEAST_ONCE`."""

    state_update_interval_ms: int = field(default=2000, kw_only=True)
    """Milliseconds between two writes of changed offsets. After a crash, the messages of at least
    this time are repeated."""

    event_time: str | Callable[[Tuple], Any] | None = field(default=None, kw_only=True)
    """The event time of a message, in Unix milliseconds: a field of its tuples, or a function of a
    tuple. The spout then computes the watermark of each partition, for all windowed
    bolts behind it. None: it uses the time of the windowed bolts that subscribe to the spout
    itself."""

    event_time_idle_ms: int | None = field(default=None, kw_only=True)
    """Milliseconds after which a partition that was read to its end no longer holds the watermark
    back. Its next messages may be late. None: every partition is waited for."""

    output_stream_id: Text = field(default=DEFAULT_STREAM, kw_only=True)
    failed_message_retry_manager: "str | Callable[[SpoutConfig], FailedMessageRetryManager]" = (
        field(default="kstorm.kafka.retry:ExponentialBackoffRetryManager", kw_only=True)
    )
    """Decides when a failed message is emitted again: a class or `module:class`, instantiated with
    this config once per partition (Storm's `failedMsgRetryManagerClass`)."""

    retry_initial_delay_ms: int = field(default=100, kw_only=True)
    """Milliseconds between a message's first failure and its second attempt (Storm: 0)."""

    retry_delay_multiplier: float = field(default=2.0, kw_only=True)
    """The delay is multiplied by this factor after each further failure (Storm: 1). By default, a
    message that always fails is emitted 10 times in the first minute, and then once a minute."""

    retry_delay_max_ms: int = field(default=60_000, kw_only=True)
    """Maximum delay in milliseconds."""

    retry_limit: int = field(default=-1, kw_only=True)
    """Maximum number of retries before a message becomes a dead letter. -1 (Storm's default):
    unlimited. A message that can never succeed then blocks the stored offset, so set a limit if
    that is possible."""

    max_uncommitted_offsets: int = field(default=200_000, kw_only=True)
    """Maximum distance, in offsets of one partition, from the oldest unfinished message to the
    newest emitted one. It limits the repeated messages after a crash, and the memory for failed
    messages. At the limit, only retries are emitted. (storm-kafka-client: 10,000,000.)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.zk_root and (not self.zk_root.startswith("/") or self.zk_root.endswith("/")):
            raise ConfigError(
                f"zk_root is {self.zk_root!r}: it must start with '/' and not end with one"
            )
        if not isinstance(self.processing_guarantee, ProcessingGuarantee):
            names = ", ".join(
                f"ProcessingGuarantee.{guarantee.name}" for guarantee in ProcessingGuarantee
            )
            raise ConfigError(
                f"processing_guarantee is {self.processing_guarantee!r}: it must be one of {names}"
            )
        if not self.id or "/" in self.id:
            raise ConfigError(f"the spout config's id is {self.id!r}: give it a name without '/'")
        if isinstance(self.zk_servers, str) or not fits(self.zk_servers, Sequence[str] | None):
            raise ConfigError(
                f"zk_servers is {self.zk_servers!r}: it must be a list of at least one host"
            )
        for name in ("state_update_interval_ms", "max_uncommitted_offsets", "zk_port"):
            _check_at_least(name, getattr(self, name), 1)
        for name in ("retry_initial_delay_ms", "retry_delay_max_ms"):
            _check_at_least(name, getattr(self, name), 0)
        # The negated comparison also rejects NaN.
        if (
            not isinstance(self.retry_delay_multiplier, int | float)
            or not self.retry_delay_multiplier >= 1
        ):
            raise ConfigError(
                f"retry_delay_multiplier is {self.retry_delay_multiplier!r}: it must be at least 1"
            )
        _check_at_least("retry_limit", self.retry_limit, -1)
        if self.event_time_idle_ms is not None:
            _check_at_least("event_time_idle_ms", self.event_time_idle_ms, 1)
        fields = self.scheme.output_fields
        if isinstance(self.event_time, str) and self.event_time not in fields:
            raise ConfigError(
                f"event_time is {self.event_time!r}, but the scheme has only the fields "
                f"{', '.join(fields)}: name one of these, or a function of a tuple"
            )

    @property
    def zk_path(self) -> str:
        """The ZooKeeper node of this spout."""
        return f"{self.zk_root}/{self.id}"

    def zk_path_of(self, topic: str) -> str:
        """The parent node of a topic's partitions: with a wildcard the topic's own node, otherwise
        the spout's."""
        return f"{self.zk_path}/{topic}" if self.kafka_topic_wildcard_match else self.zk_path

    @property
    def zk_connect(self) -> str | None:
        """The connect string of `zk_servers`, or None if they are not set."""
        if not self.zk_servers:
            return None
        return ",".join(
            server if ":" in server else f"{server}:{self.zk_port}" for server in self.zk_servers
        )


def _check_at_least(name: str, value: object, least: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and value < least:  # type: ignore[operator] # an int
        raise ConfigError(f"{name} is {value}: it must be at least {least}")
    if not whole:
        known = (
            "EARLIEST_TIME, LATEST_TIME or a Unix time in ms, "
            if name == "start_offset_time"
            else ""
        )
        raise ConfigError(f"{name} is {value!r}: it must be {known}a whole number")
