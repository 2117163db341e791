"""The fake reader of the spout tests keeps the contract of the real one."""

from dataclasses import dataclass, field

import pytest

from tests.source_contract import SourceContract
from tests.unit.kafka.conftest import TOPIC, FakeSource


@dataclass
class FakeLog:
    """A `Log` in memory."""

    reader: FakeSource = field(default_factory=FakeSource)
    name: str = TOPIC

    def write(self, partition: int, count: int) -> None:
        end = self.reader.end(self.reader.at(partition))
        self.reader.produce(partition, *range(end, end + count))

    def write_undecodable(self, partition: int, count: int) -> None:
        self.reader.produce_undecodable(partition, count)

    def expire(self, partition: int, before: int) -> None:
        where = self.reader.at(partition)
        self.reader.starts[where] = before
        self.reader.logs[where] = [
            message for message in self.reader.logs[where] if message.offset() >= before
        ]


class TestFakeSource(SourceContract):
    """See `SourceContract`."""

    @pytest.fixture
    def log(self) -> FakeLog:
        """Provide two empty partitions."""
        log = FakeLog()
        for partition in (0, 1):
            log.write(partition, 0)
        return log
