"""The settings of the queue spouts: rejected values, and derived ones."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import MessageMetadataSchemeAsMultiScheme, RawMultiScheme, StringScheme
from kstorm.queues import (
    QUEUES,
    HostInfo,
    KestrelConfig,
    KestrelSpout,
    RabbitMQConfig,
    RabbitMQTls,
    hosts_for_task,
)
from kstorm.queues.kestrel_config import host_infos
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.resources import Resources
from kstorm.topology import OutputFieldsDeclarer


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RabbitMQConfig(""), "name the queue to read"),
        (
            lambda: RabbitMQConfig("q", hosts=[]),
            r"hosts is \[\]: it must be a list of at least one host",
        ),
        (lambda: RabbitMQConfig("q", hosts="rabbit"), "hosts is 'rabbit': it must be a list"),
        (lambda: RabbitMQConfig("q", hosts=["rabbit:x"]), "the host 'rabbit:x' is not of the form"),
        (lambda: RabbitMQConfig("q", hosts=[":5672"]), "the host ':5672' is not of the form"),
        (
            lambda: RabbitMQConfig("q", prefetch_count=0),
            "prefetch_count is 0: it must be above 0 and at most 65535",
        ),
        (
            lambda: RabbitMQConfig("q", prefetch_count=65536),
            "prefetch_count is 65536: .* at most 65535",
        ),
        (lambda: RabbitMQConfig("q", heartbeat_secs=0), "heartbeat_secs is 0: it must be above 0"),
        (
            lambda: RabbitMQConfig("q", connection_timeout_secs=-1.0),
            "connection_timeout_secs is -1.0: it must be above",
        ),
        (
            lambda: RabbitMQConfig("q", reconnect_delay_max_ms=1),
            "reconnect_delay_max_ms is 1: .* which is 500",
        ),
        (
            lambda: RabbitMQConfig("q", scheme=MessageMetadataSchemeAsMultiScheme(StringScheme())),
            "has neither, so use a SchemeAsMultiScheme",
        ),
        (
            lambda: RabbitMQConfig("q", scheme=StringScheme()),
            r"scheme is a StringScheme.* SchemeAsMultiScheme\(String",
        ),
        (lambda: KestrelConfig(open_reads=0), "open_reads is 0: it must be above 0"),
        (
            lambda: KestrelConfig(blacklist_time_secs=float("nan")),
            "blacklist_time_secs is nan: it must be a finite number",
        ),
        (lambda: KestrelSpout([], 22133, "q"), r"hosts are \[\]: name at least one host"),
        (
            lambda: KestrelSpout("kestrel:one", 22133, "q"),
            "'kestrel:one' is not of the form host or host:port",
        ),
        (lambda: KestrelSpout("kestrel", 0, "q"), "'kestrel' with port 0 is not an address"),
        (
            lambda: KestrelSpout("kestrel", 22133, "a/open"),
            "the name of the Kestrel queue 'a/open' is invalid",
        ),
        (
            lambda: KestrelSpout("kestrel", 22133, "a b"),
            "the name of the Kestrel queue 'a b' is invalid",
        ),
        (lambda: KestrelSpout("kestrel", 22133, "a\r\nset"), "is invalid"),
        (lambda: KestrelSpout("kestrel", 22133, ""), "the Kestrel queue '' is invalid"),
        (
            lambda: KestrelSpout("kestrel", 22133, "q", RawMultiScheme()),  # type: ignore[arg-type]
            "scheme is a RawMultiScheme: give it a plain Scheme",
        ),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_repr_contains_no_password() -> None:
    """This covers the config and its owner."""
    config = RabbitMQConfig(
        "q", username="me", password="very-secret", password_file="/secrets/rabbit"
    )
    assert "very-secret" not in repr(config)
    assert "'me'" in repr(config)


def test_rabbitmq_port_defaults_depend_on_tls() -> None:
    hosts = ["a", "b:1234"]
    assert RabbitMQConfig("q", hosts=hosts).addresses == [("a", 5672), ("b", 1234)]
    assert RabbitMQConfig("q", hosts=hosts, tls=RabbitMQTls()).addresses == [
        ("a", 5671),
        ("b", 1234),
    ]


def test_prefetch_defaults_to_the_pending_limit() -> None:
    """It is never more than AMQP can encode, because 0 would mean no limit."""
    assert RabbitMQConfig("q").prefetch(2000) == 2000
    assert RabbitMQConfig("q").prefetch(1_000_000) == 65_535
    assert RabbitMQConfig("q", prefetch_count=10).prefetch(2000) == 10


def test_reconnect_pauses_grow() -> None:
    """They double from 0.5 s to 30 s.

    Each is randomly shortened by up to half, to spread reconnects.
    """
    one = RabbitMQConfig("q")
    assert [one.delay(failures, 0) for failures in range(1, 10)] == [
        0.5,
        1,
        2,
        4,
        8,
        16,
        30,
        30,
        30,
    ]
    assert one.delay(10_000, 0) == 30
    assert one.delay(3, 1) == 1


def test_the_next_host_is_tried_at_once_and_a_pause_made_when_all_have_failed() -> None:
    two = RabbitMQConfig("q", hosts=["a", "b"])
    assert [two.delay(failures, 0) for failures in range(1, 7)] == [0, 0.5, 0, 1, 0, 2]


def test_kestrel_hosts_are_spread_over_tasks_as_storm_does() -> None:
    """With fewer tasks than hosts, each task reads all hosts.

    Otherwise each task has one host, in turn.
    """
    hosts = host_infos(["a", "b:1", "c"], 22133)
    assert hosts == [HostInfo("a", 22133), HostInfo("b", 1), HostInfo("c", 22133)]
    assert hosts_for_task(hosts, 1, 2) == hosts
    assert [hosts_for_task(hosts, task, 4) for task in range(4)] == [
        [hosts[0]],
        [hosts[1]],
        [hosts[2]],
        [hosts[0]],
    ]


def test_open_reads_are_bounded_by_the_pending_limit() -> None:
    """The bound is over all hosts, but each host has at least one connection."""
    config = KestrelConfig(open_reads=50)
    assert config.open_reads_per_host(1, 2000) == 50
    assert config.open_reads_per_host(3, 60) == 20
    assert config.open_reads_per_host(3, 1) == 1


def test_kestrel_spout_of_storms_documentation_is_accepted() -> None:
    """The call is `new KestrelSpout("kestrel.backtype.com", 22133, "sentence_queue", new StringScheme())`.

    The scheme is optional.
    """
    for spout, field in (
        (KestrelSpout("kestrel.backtype.com", 22133, "sentence_queue", StringScheme()), "str"),
        (KestrelSpout("kestrel.backtype.com", 22133, "sentence_queue"), "bytes"),
    ):
        declarer = OutputFieldsDeclarer("sentences")
        spout.declare_output_fields(declarer)
        assert list(declarer.streams["default"].fields) == [field]
        assert spout.hosts == [HostInfo("kestrel.backtype.com", 22133)]


def test_missing_rabbitmq_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pika", None)
    monkeypatch.delitem(sys.modules, "kstorm.runtime.queues.rabbitmq", raising=False)
    ports = Resources(Settings(topology="unused:unused")).lent[QUEUES]
    with pytest.raises(
        ConfigError,
        match=r"needs the module 'pika', which is not installed: install kstorm\[rabbitmq\]",
    ):
        ports.open_rabbitmq(RabbitMQConfig("q"), 1)
