"""The remedy that is shown if one of Kafka's own topics has too few in-sync replicas."""

from kstorm.runtime.kafka.internal_topics import remedy


def test_unavailable_brokers_are_named() -> None:
    assert remedy({1, 2, 3}, in_sync={1}, brokers={1}) == "start the brokers 2, 3"


def test_restarted_brokers_get_time() -> None:
    """A restart of a broker does not call for a lower setting."""
    assert remedy({1, 2}, in_sync={1}, brokers={1, 2}).startswith(
        "the brokers 2 are running but have not caught up yet"
    )


def test_replication_factor_above_the_broker_count_is_reported() -> None:
    assert remedy({1, 2}, in_sync={1, 2}, brokers={1, 2}) == "lower its min.insync.replicas"
