"""The due times of failed messages."""

from typing import TYPE_CHECKING

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import ExponentialBackoffRetryManager, KafkaHosts, SpoutConfig
from kstorm.kafka.retry import make_retry_manager

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


def manager(
    initial: int = 0, multiplier: float = 1.0, longest: int = 60_000, limit: int = -1
) -> ExponentialBackoffRetryManager:
    """Builds a manager with these settings."""
    return ExponentialBackoffRetryManager(
        SpoutConfig(
            KafkaHosts(),
            "t",
            "",
            "s",
            retry_initial_delay_ms=initial,
            retry_delay_multiplier=multiplier,
            retry_delay_max_ms=longest,
            retry_limit=limit,
        )
    )


def delays(retry: ExponentialBackoffRetryManager, failures: int) -> list[float]:
    """Returns the delay of offset 1 after each of its failures, in whole milliseconds."""
    waited = []
    for _ in range(failures):
        retry.failed(1, 0.0)
        waited.append(
            next(
                ms
                for ms in range(1000)
                if retry.next_failed_message_to_retry(ms / 1000) is not None
            )
            / 1000
        )
        retry.retry_started(1)
    return waited


def test_the_delay_grows_up_to_its_maximum() -> None:
    """Each failure multiplies the delay, up to the maximum."""
    assert delays(manager(100, 2.0, 500), 5) == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_the_defaults_retry_at_once() -> None:
    """Storm's default delay is 0, and does not grow."""
    assert delays(manager(), 3) == [0.0, 0.0, 0.0]


def test_a_huge_number_of_failures_keeps_the_maximum() -> None:
    """A power beyond the range of a float still gives the maximum."""
    retry = manager(1000, 10.0, 3000)
    for failure in range(400):
        retry.failed(1, failure * 10.0)
        assert retry.next_failed_message_to_retry(failure * 10.0 + 3.0) == 1
        retry.retry_started(1)
    retry.failed(1, 5000.0)
    assert retry.next_failed_message_to_retry(5002.9) is None


def test_the_lowest_offset_that_is_due_goes_first() -> None:
    """The stored offset waits for the lowest one, so it is retried first even if it failed last."""
    retry = manager(100)
    for offset, failed in ((9, 0.0), (5, 0.01), (2, 5.0)):
        retry.failed(offset, failed)
    assert retry.next_failed_message_to_retry(0.05) is None
    assert retry.next_failed_message_to_retry(1.0) == 5
    retry.retry_started(5)
    assert retry.next_failed_message_to_retry(1.0) == 9
    assert retry.next_failed_message_to_retry(6.0) == 2


def test_a_message_is_given_up_after_its_retries() -> None:
    """A limit of 2 allows two retries, which are three attempts."""
    retry = manager(limit=2)
    for _ in range(2):
        assert retry.retry_further(1)
        retry.failed(1, 0.0)
        assert retry.next_failed_message_to_retry(0.0) == 1
        retry.retry_started(1)
    assert not retry.retry_further(1)


def test_a_limit_of_0_allows_no_retry() -> None:
    """The first failure is final."""
    assert not manager(limit=0).retry_further(1)


def test_finished_message_is_forgotten() -> None:
    """A later message at the same offset starts without failures."""
    retry = manager(100, 2.0, limit=1)
    retry.failed(1, 0.0)
    retry.next_failed_message_to_retry(1.0)
    retry.retry_started(1)
    assert not retry.retry_further(1)
    retry.done(1)
    assert retry.retry_further(1)


def test_message_finished_during_its_wait_is_not_due() -> None:
    """It does not delay messages that are due."""
    retry = manager()
    for offset in (1, 2):
        retry.failed(offset, 0.0)
    assert retry.next_failed_message_to_retry(0.0) == 1
    retry.done(1)
    assert retry.next_failed_message_to_retry(0.0) == 2
    retry.retry_started(2)
    assert retry.next_failed_message_to_retry(9.0) is None


def test_message_that_fails_twice_is_retried_once() -> None:
    """The delay is that of the second failure."""
    retry = manager(100, 2.0)
    retry.failed(1, 0.0)
    retry.failed(1, 0.05)
    assert retry.next_failed_message_to_retry(0.24) is None
    assert retry.next_failed_message_to_retry(0.26) == 1
    retry.retry_started(1)
    assert retry.next_failed_message_to_retry(9.0) is None


def test_retry_started_removes_the_named_message() -> None:
    """The call names it explicitly. A message that does not wait is an error."""
    retry = manager()
    for offset in (1, 2):
        retry.failed(offset, 0.0)
    retry.retry_started(2)
    assert retry.next_failed_message_to_retry(0.0) == 1
    with pytest.raises(
        ValueError,
        match="offset 2 is not waiting for its retry: it did not fail, or was retried since",
    ):
        retry.retry_started(2)
    assert retry.next_failed_message_to_retry(0.0) == 1


def test_the_manager_is_named_by_its_import_path() -> None:
    """The setting names a class, as in Storm's documentation *Storm Kafka Integration*.

    It may also be the class itself.
    """
    by_default = make_retry_manager(SpoutConfig(KafkaHosts(), "t", "", "s"))
    by_class = make_retry_manager(
        SpoutConfig(
            KafkaHosts(), "t", "", "s", failed_message_retry_manager=ExponentialBackoffRetryManager
        )
    )
    assert isinstance(by_default, ExponentialBackoffRetryManager)
    assert isinstance(by_class, ExponentialBackoffRetryManager)


class Never(ExponentialBackoffRetryManager):
    """A user's policy that never retries."""

    def retry_further(self, offset: int) -> bool:
        return False


def test_custom_retry_manager_decides(world: "World") -> None:
    """The setting is its import path. Opening the spout rejects an invalid path."""
    world.source.produce(0, 0, 1)
    spout = world.open(failed_message_retry_manager=f"{__name__}:Never")
    spout.fail(world.run_ids(spout)[0])
    assert world.run(spout) == []
    assert [letter.offset for letter in world.collector.letters] == [0]
    with pytest.raises(ConfigError, match="failed_message_retry_manager is 'nowhere:Manager'"):
        world.open(failed_message_retry_manager="nowhere:Manager")


@pytest.mark.parametrize("path", ["nowhere:Manager", "kstorm.kafka.retry:Missing", "no-colon", ""])
def test_a_manager_that_cannot_be_imported_is_refused(path: str) -> None:
    """The error names the setting and its value."""
    with pytest.raises(ConfigError, match="failed_message_retry_manager is"):
        make_retry_manager(
            SpoutConfig(KafkaHosts(), "t", "", "s", failed_message_retry_manager=path)
        )
