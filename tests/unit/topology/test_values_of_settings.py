"""A setting of the wrong type is rejected at once. The error names it, and shows no secret."""

# mypy: disable-error-code="arg-type, list-item"

from collections.abc import Callable
from typing import Any

import pytest

from kstorm.errors import KstormError
from kstorm.kafka import KafkaHosts, StaticHosts, ZkHosts
from kstorm.kafka.hosts import GlobalPartitionInformation
from kstorm.queues import KestrelConfig, RabbitMQConfig, RabbitMQTls
from kstorm.registry import SchemaRegistry
from kstorm.testing import FeederSpout
from kstorm.topology import BasicBolt, TopologyBuilder
from kstorm.windows import Duration, WindowedBolt

MADE: list[tuple[Callable[[], Any], str]] = [
    (lambda: KafkaHosts(refresh_freq_secs="5"), "refresh_freq_secs is '5': it must be a number"),
    (lambda: KafkaHosts(refresh_freq_secs=True), "refresh_freq_secs is True: it must be a number"),
    (
        lambda: KafkaHosts(["a:1"]),
        "bootstrap_servers is ['a:1']: it must be text that is not empty or None",
    ),
    (lambda: KafkaHosts(refresh_freq_secs=float("inf")), "is inf: it must be a finite number"),
    (lambda: KestrelConfig(timeout_secs=float("inf")), "is inf: it must be a finite number"),
    (lambda: ZkHosts(5), "zk_connect is 5: it must be text"),
    (lambda: ZkHosts("a:1", tls="false"), "tls is 'false': it must be True or False"),
    (lambda: ZkHosts("a:1", broker_zk_path=None), "broker_zk_path is None: it must be text"),
    (lambda: StaticHosts("a:1"), "it must be a GlobalPartitionInformation"),
    (lambda: GlobalPartitionInformation(5), "topic is 5: it must be text"),
    (lambda: RabbitMQConfig(5), "queue is 5: it must be text"),
    (
        lambda: RabbitMQConfig("q", hosts=[5]),
        "hosts is [5]: it must be a list of at least one host",
    ),
    (lambda: RabbitMQConfig("q", prefetch_count="5"), "prefetch_count is '5'"),
    (lambda: RabbitMQConfig("q", prefetch_count=True), "prefetch_count is True"),
    (lambda: RabbitMQConfig("q", heartbeat_secs=None), "heartbeat_secs is None"),
    (lambda: RabbitMQConfig("q", tls=True), "tls is True: it must be a RabbitMQTls or None"),
    (lambda: RabbitMQConfig("q", password=12345), "password is of type int: it must be text"),
    (lambda: RabbitMQTls(ca_file=5), "ca_file is 5: it must be text or None"),
    (lambda: KestrelConfig(open_reads="5"), "open_reads is '5': it must be a whole number"),
    (lambda: KestrelConfig(timeout_secs=True), "timeout_secs is True: it must be a number"),
    (lambda: SchemaRegistry(5), "url is of type int: it must be text"),
    (lambda: SchemaRegistry("http://a", ["x"]), "properties is of type list: it must be a mapping"),
    *(
        (lambda make=make, value=value: make(value), "it must be a finite number")
        for make in (Duration.seconds, Duration.minutes, Duration.hours, Duration.days)
        for value in ("3", None, True, float("nan"), float("inf"))
    ),
]


@pytest.mark.parametrize(("make", "says"), MADE)
def test_a_value_of_another_type_is_refused(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(KstormError) as caught:
        make()
    assert says in str(caught.value)
    assert "12345" not in str(caught.value)


class Configured(BasicBolt):
    """Returns these settings."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def get_component_configuration(self) -> Any:
        return self.settings


class Windowed(WindowedBolt):
    """The same for a bolt with windows."""

    get_component_configuration = Configured.get_component_configuration

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self.settings = settings


def built(settings: Any, windows: bool) -> Any:
    builder = TopologyBuilder("t")
    builder.set_spout("feeder", FeederSpout("x"))
    bolt: Any = (
        Windowed(settings).with_tumbling_window(Duration.seconds(1))
        if windows
        else Configured(settings)
    )
    builder.set_bolt("bolt", bolt).shuffle_grouping("feeder")
    return builder.build().component("bolt").config


@pytest.mark.parametrize("windows", [False, True])
def test_no_configuration_of_a_component(windows: bool) -> None:
    """None, which is Storm's default, means no setting.

    Other values that are not mappings are rejected.
    """
    assert built(None, windows).topology_debug is False
    assert built({"topology_debug": True}, windows).topology_debug is True
    for bad in (["a"], 5, {1: 2}):
        with pytest.raises(KstormError, match="get_component_configuration of"):
            built(bad, windows)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pass/word@registry:8081",
        "http://user:p@ss/w@rd@registry:8081",
        "http://a:8081,http://user:pass/word@registry:8081",
        "ftp://user:pass/word@registry",
        "user:pass/word@registry",
    ],
)
def test_no_part_of_a_password_is_shown(url: str) -> None:
    """This includes a password with an unescaped slash, as in addresses in errors and logs."""
    try:
        shown = SchemaRegistry(url).shown
    except KstormError as error:
        shown = str(error)
    assert "registry" in shown
    for part in ("user", "pass", "word", "p@ss", "w@rd"):
        assert part not in shown.replace("schema registry's address", "")
