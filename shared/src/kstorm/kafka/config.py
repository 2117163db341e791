"""The settings of a `KafkaSpout`, under Storm's names in Python spelling.

SpoutConfig(KafkaHosts(), "sentences", "/kafka-spouts", "wordcount", scheme=SchemeAsMultiScheme(StringScheme()))
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from kstorm.errors import ConfigError
from kstorm.kafka.extent import MOST_MESSAGE_BYTES
from kstorm.kafka.hosts import BrokerHosts, StaticHosts
from kstorm.kafka.retry_manager import FailedMessageRetryManager
from kstorm.kafka.scheme import MultiScheme, RawMultiScheme, check_multi_scheme
from kstorm.topology import DEFAULT_STREAM

SPOUTS_OWN_PROPERTIES: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": False,
    "auto.offset.reset": "error",
}
"""Properties of librdkafka's consumer that nobody can set otherwise: which offsets are stored, and what becomes of one that is
out of range, is the spout's business."""

EARLIEST_TIME: Final = -2
"""`start_offset_time`: the oldest message that the topic still has."""
LATEST_TIME: Final = -1
"""`start_offset_time`: what is written from now on."""


class ProcessingGuarantee(Enum):
    """What a `KafkaSpout` promises of its messages (storm-kafka-client's `ProcessingGuarantee`)."""

    AT_LEAST_ONCE = auto()
    """The stored offset never passes a message that is not finished; what fails is emitted again."""

    AT_MOST_ONCE = auto()
    """The spout emits a message only once ZooKeeper has an offset behind it, so no message is emitted twice, whatever
    dies; what fails or gets lost is not emitted again. Nothing is emitted while ZooKeeper cannot be reached, and each batch
    costs a write there. Trees are not tracked, so `topology_max_spout_pending` does not hold the spout back."""

    NO_GUARANTEE = auto()
    """A message counts as finished as soon as it is emitted, and the offset is stored every `state_update_interval_ms`.
    What fails is lost; what was emitted since the last write is emitted again after a crash. Trees are not tracked."""


@dataclass(frozen=True)
class KafkaConfig:
    """What to read and how. Raises `ConfigError` on a value out of range."""

    hosts: BrokerHosts
    """Where the brokers are: `KafkaHosts`, `ZkHosts` or `StaticHosts`."""

    topic: str
    """The topic to read; with `kafka_topic_wildcard_match` a regular expression."""

    kafka_topic_wildcard_match: bool = field(default=False, kw_only=True)
    """Whether `topic` is a regular expression, and every topic is read whose whole name it matches (Storm's
    `kafka.topic.wildcard.match`). Topics that appear later are found at the next refresh. Never read are the topology's
    own topics and those that begin with `__`."""

    client_id: str = field(default="", kw_only=True)
    """Name of the client in the brokers' logs and quotas; "" stands for the spout's `id`."""

    fetch_size_bytes: int = field(default=1024 * 1024, kw_only=True)
    """Most bytes fetched of one partition at once (librdkafka's `fetch.message.max.bytes`). A larger message is fetched
    none the less, alone."""

    socket_timeout_ms: int = field(default=10_000, kw_only=True)
    """Milliseconds after which an unanswered request to a broker has failed (`socket.timeout.ms`); at least a second
    more than `fetch_max_wait`, whatever is said here."""

    fetch_max_wait: int = field(default=500, kw_only=True)
    """Most milliseconds that a broker holds back its answer while it has nothing new (`fetch.wait.max.ms`). Storm's
    default is 10,000; but one connection serves all partitions of a broker here, and a partition that starts waits for
    the answer under way (8.5 s were seen). New messages are answered at once, whatever this is."""

    buffer_size_bytes: int = field(default=1024 * 1024, kw_only=True)
    """Bytes of the socket's receive buffer (`socket.receive.buffer.bytes`); 0 leaves it to the system."""

    scheme: MultiScheme = field(default_factory=RawMultiScheme, kw_only=True)
    """Makes tuples of messages; the default gives the value as it is, in the field `bytes`."""

    max_message_bytes: int = field(default=MOST_MESSAGE_BYTES, kw_only=True)
    """Most bytes of a message, with its key where the scheme reads that. One that is longer is never shown to the scheme: it
    becomes a dead letter, with its beginning. A batch of 2 kB may hold a message of 60 MB."""

    ignore_zk_offsets: bool = field(default=False, kw_only=True)
    """Whether a new deployment of the topology (another `KSTORM_TOPOLOGY_ID`) starts at `start_offset_time` although an
    offset is stored. A restarted process of the same deployment resumes in any case."""

    start_offset_time: int = field(default=EARLIEST_TIME, kw_only=True)
    """Where to start a partition of which no offset is stored: `EARLIEST_TIME`, `LATEST_TIME`, or a Unix time in ms. With
    `LATEST_TIME` a partition or topic that is found later starts at its beginning."""

    max_offset_behind: int | None = field(default=None, kw_only=True)
    """Most offsets to be behind. A stored offset further than this behind the one of `start_offset_time` is given up
    for it, and a failed message further than this behind the newest emitted one becomes a dead letter. None: no limit."""

    use_start_offset_time_if_offset_out_of_range: bool = field(default=True, kw_only=True)
    """What happens when the broker does not have the offset to read from (expired, or the topic was made anew): start
    again at `start_offset_time`; or, if False, report an error and read nothing of the partition until it has it."""

    metrics_time_bucket_size_in_secs: int = field(default=60, kw_only=True)
    """Seconds between two lines of the log that have the metrics of a task (`KafkaSpout.metrics`); 0: none. Whoever scrapes
    `/metrics` has them whenever he likes."""

    kafka_properties: Mapping[str, str | int | float | bool] = field(
        default_factory=dict, kw_only=True, repr=False
    )
    """Further librdkafka consumer properties, e.g. for TLS and SASL; they win over the fields above. Those of
    `SPOUTS_OWN_PROPERTIES` are refused."""

    def __post_init__(self) -> None:
        if not self.topic:
            raise ConfigError("a spout config without a topic: name the topic to read")
        if not isinstance(self.hosts, BrokerHosts):
            raise ConfigError(
                f"hosts is {self.hosts!r}: it must be KafkaHosts('host:port,…'), ZkHosts or StaticHosts"
            )
        self._check_topic()
        check_multi_scheme(self.scheme)
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
                    f"kafka_properties has {name}={asked!r}, but it must be {str(value).lower()}: the spout stores its offsets "
                    "itself, see processing_guarantee, start_offset_time and use_start_offset_time_if_offset_out_of_range"
                )

    def _check_topic(self) -> None:
        hosts, topic = self.hosts, self.topic
        if self.kafka_topic_wildcard_match:
            try:
                re.compile(topic)
            except re.error as error:
                raise ConfigError(
                    f"topic is {topic!r}, which is no regular expression: {error}"
                ) from None
        if isinstance(hosts, StaticHosts):
            if self.kafka_topic_wildcard_match:
                raise ConfigError(
                    "StaticHosts finds no topics: with kafka_topic_wildcard_match use KafkaHosts or ZkHosts"
                )
            if hosts.partition_information.topic != topic:
                raise ConfigError(
                    f"topic is {topic!r}, but StaticHosts has the partitions of {hosts.partition_information.topic!r}: "
                    "name the same topic in both"
                )


@dataclass(frozen=True)
class SpoutConfig(KafkaConfig):
    """A `KafkaConfig`, and what only the spout needs."""

    zk_root: str = ""
    """The ZooKeeper node under which offsets are kept: `<zk_root>/<id>/partition_<n>`, or for a regular expression
    `<zk_root>/<id>/<topic>/partition_<n>`; "" is ZooKeeper's own root."""

    id: str = ""
    """Name of this reading of the topic: the node under `zk_root`, and the consumer group that shows its lag. Keep it
    over redeployments, or the spout starts anew; give no two spouts the same. It must be given."""

    zk_servers: Sequence[str] | None = field(default=None, kw_only=True)
    """Hosts of the ZooKeeper that keeps the offsets. None: the service's own (`KSTORM_ZOOKEEPER`)."""

    zk_port: int = field(default=2181, kw_only=True)
    """Port of `zk_servers`, for those that do not name one."""

    processing_guarantee: ProcessingGuarantee = field(
        default=ProcessingGuarantee.AT_LEAST_ONCE, kw_only=True
    )
    """What is promised of each message. The fields about retries and uncommitted offsets matter for `AT_LEAST_ONCE` only."""

    state_update_interval_ms: int = field(default=2000, kw_only=True)
    """Milliseconds between two writes of the offsets, if they changed. What a crash repeats is at least this much."""

    output_stream_id: str = field(default=DEFAULT_STREAM, kw_only=True)
    """The stream to emit on."""

    failed_message_retry_manager: "str | Callable[[SpoutConfig], FailedMessageRetryManager]" = (
        field(default="kstorm.kafka.retry:ExponentialBackoffRetryManager", kw_only=True)
    )
    """Decides when a failed message is emitted again: a class, or `module:class`; made with this config, once per
    partition (Storm's `failedMsgRetryManagerClass`)."""

    retry_initial_delay_ms: int = field(default=0, kw_only=True)
    """Milliseconds from a message's first failure to its second attempt."""

    retry_delay_multiplier: float = field(default=1.0, kw_only=True)
    """The delay grows by this factor with every further failure."""

    retry_delay_max_ms: int = field(default=60_000, kw_only=True)
    """The delay grows up to this many milliseconds."""

    retry_limit: int = field(default=-1, kw_only=True)
    """How often a message is emitted again before it becomes a dead letter; -1, Storm's default, is for ever. A message
    that can never succeed then holds the stored offset where it is, so give a limit wherever that can happen."""

    max_uncommitted_offsets: int = field(default=200_000, kw_only=True)
    """Most offsets of a partition from the oldest unfinished message to the newest emitted one: what a crash repeats at
    most, and what bounds the memory for failed messages. At the limit only retries are emitted. (storm-kafka-client:
    10,000,000.)"""

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
        if isinstance(self.zk_servers, str):
            raise ConfigError(
                f"zk_servers is {self.zk_servers!r}: it must be a list of one host or more"
            )
        for name in ("state_update_interval_ms", "max_uncommitted_offsets", "zk_port"):
            _check_at_least(name, getattr(self, name), 1)
        for name in ("retry_initial_delay_ms", "retry_delay_max_ms"):
            _check_at_least(name, getattr(self, name), 0)
        if (
            not isinstance(self.retry_delay_multiplier, int | float)
            or not self.retry_delay_multiplier >= 1
        ):  # or NaN
            raise ConfigError(
                f"retry_delay_multiplier is {self.retry_delay_multiplier!r}: it must be at least 1"
            )
        _check_at_least("retry_limit", self.retry_limit, -1)

    @property
    def zk_path(self) -> str:
        """The node of this spout."""
        return f"{self.zk_root}/{self.id}"

    def zk_path_of(self, topic: str) -> str:
        """The node under which a topic's partitions are: the spout's own, or that of the topic if it reads several."""
        return f"{self.zk_path}/{topic}" if self.kafka_topic_wildcard_match else self.zk_path

    @property
    def zk_connect(self) -> str | None:
        """The connect string of `zk_servers`; None if there are none."""
        if not self.zk_servers:
            return None
        return ",".join(
            server if ":" in server else f"{server}:{self.zk_port}" for server in self.zk_servers
        )


def _check_at_least(name: str, value: object, least: int) -> None:
    if isinstance(value, int) and value < least:
        raise ConfigError(f"{name} is {value}: it must be at least {least}")
    if not isinstance(value, int):
        known = (
            "EARLIEST_TIME, LATEST_TIME or a Unix time in ms, "
            if name == "start_offset_time"
            else ""
        )
        raise ConfigError(f"{name} is {value!r}: it must be {known}a whole number")
