"""Random calls of the retry manager, compared with a model that searches a list."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kstorm.kafka import ExponentialBackoffRetryManager, KafkaHosts, SpoutConfig

INITIAL, FACTOR, LONGEST, LIMIT = 100, 2.0, 400, 3

offsets = st.integers(0, 4)


class Naive:
    """The model: each message has a count of failures and, while it waits, a due time."""

    def __init__(self) -> None:
        self.failures: dict[int, int] = {}
        self.due_from: dict[int, float] = {}

    def failed(self, offset: int, now: float) -> None:
        self.failures[offset] = self.failures.get(offset, 0) + 1
        self.due_from[offset] = (
            now + min(INITIAL * FACTOR ** (self.failures[offset] - 1), LONGEST) / 1000
        )

    def next(self, now: float) -> int | None:
        return min((offset for offset, due in self.due_from.items() if due <= now), default=None)


class Retries(RuleBasedStateMachine):
    """Calls the manager in the order of a partition, and in other orders."""

    def __init__(self) -> None:
        super().__init__()
        config = SpoutConfig(
            KafkaHosts(),
            "t",
            "",
            "s",
            retry_initial_delay_ms=INITIAL,
            retry_delay_multiplier=FACTOR,
            retry_delay_max_ms=LONGEST,
            retry_limit=LIMIT,
        )
        self.manager = ExponentialBackoffRetryManager(config)
        self.model = Naive()
        self.now = 0.0

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.4, 1.0, -0.15]))
    def time_passes(self, seconds: float) -> None:
        """A clock that is set back must not lose a message either."""
        self.now += seconds

    @rule(offset=offsets)
    def fails(self, offset: int) -> None:
        self.manager.failed(offset, self.now)
        self.model.failed(offset, self.now)

    @rule(offset=offsets)
    def is_emitted_again(self, offset: int) -> None:
        """It may be any waiting message. A message that does not wait is an error."""
        try:
            self.manager.retry_started(offset)
        except ValueError:
            assert offset not in self.model.due_from
        else:
            del self.model.due_from[offset]

    @rule()
    def the_next_is_emitted_again(self) -> None:
        offset = self.manager.next_failed_message_to_retry(self.now)
        if offset is not None:
            self.is_emitted_again(offset)

    @rule(offset=offsets)
    def is_done(self, offset: int) -> None:
        self.manager.done(offset)
        self.model.failures.pop(offset, None)
        self.model.due_from.pop(offset, None)

    @rule()
    def is_asked(self) -> None:
        assert self.manager.next_failed_message_to_retry(self.now) == self.model.next(self.now)

    @invariant()
    def the_limit_is_that_of_the_failures(self) -> None:
        for offset in range(5):
            assert self.manager.retry_further(offset) is (
                self.model.failures.get(offset, 0) < LIMIT
            )

    def teardown(self) -> None:
        """In the end each waiting message is named once, and none is left."""
        left = []
        while (offset := self.manager.next_failed_message_to_retry(self.now + 10)) is not None:
            self.manager.retry_started(offset)
            left.append(offset)
        assert left == sorted(self.model.due_from)
        assert [self.manager._due, self.manager._delayed, self.manager._waits] == [[], [], {}]


TestRetries = Retries.TestCase
TestRetries.settings = settings(stateful_step_count=40)
