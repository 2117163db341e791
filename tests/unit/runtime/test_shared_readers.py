"""The spout tasks of a process share the readers of replay requests and committed positions."""

from unittest.mock import patch

from kstorm.kafka.ports import Partition
from kstorm.runtime.kafka.shared_positions import SharedPositions
from kstorm.runtime.kafka.shared_replay_requests import SharedReplayRequests
from kstorm.testing.kafka.broker import PendingRequests, Topics
from kstorm.testing.kafka.replay_request_reader import FakeReplayRequests


class Requests:
    """A topic of requests, with its readers."""

    def __init__(self) -> None:
        self.opened: list[FakeReplayRequests] = []
        self._topics = Topics()
        self._topics.create("orders", 1)
        self.shared = SharedReplayRequests(self._open)

    def _open(self) -> FakeReplayRequests:
        self.opened.append(FakeReplayRequests(self._topics, PendingRequests(), "orders"))
        return self.opened[-1]

    def write(self, key: bytes) -> None:
        self._topics.append("orders", key, b"x")


def test_each_task_reads_all_requests() -> None:
    """A task also gets the requests that another task read before it was opened."""
    requests = Requests()
    requests.write(b"a")
    one = requests.shared.lend()
    assert one.read() == []
    assert one.read() == [(b"a", b"x")]
    two = requests.shared.lend()
    assert not one.at_end
    assert one.read() == []
    assert one.at_end
    assert not two.at_end
    requests.write(b"b")
    assert two.read() == [(b"a", b"x"), (b"b", b"x")]
    assert two.at_end
    assert one.read() == [(b"b", b"x")]
    assert len(requests.opened) == 1


def test_task_opened_after_the_end_has_another_reader() -> None:
    """An apparently open request may have just ended."""
    requests = Requests()
    one = requests.shared.lend()
    while not one.at_end:
        one.read()
    requests.write(b"a")
    two = requests.shared.lend()
    assert len(requests.opened) == 2
    assert not two.at_end
    found: list[tuple[bytes | None, bytes | None]] = []
    while not two.at_end:
        found += two.read()
    assert found == one.read() == [(b"a", b"x")]


def test_end_is_asked_for_again_for_each_task() -> None:
    """Requests may have ended since the reader was opened. A later task needs them all."""
    requests = Requests()
    requests.write(b"a")
    one = requests.shared.lend()
    with patch.object(FakeReplayRequests, "ask_end", autospec=True) as asked:
        requests.shared.lend()
    asked.assert_called_once_with(requests.opened[0])
    while not one.at_end:
        one.read()
    one.ask_end()
    assert not one.at_end
    assert not requests.opened[0].at_end
    three, found = requests.shared.lend(), list[tuple[bytes | None, bytes | None]]()
    assert len(requests.opened) == 2
    while not three.at_end:
        found += three.read()
    assert found == [(b"a", b"x")]


def test_requests_are_read_until_the_last_task_closes() -> None:
    requests = Requests()
    one, two = requests.shared.lend(), requests.shared.lend()
    one.close()
    one.close()
    assert two.read() == []
    two.close()
    three = requests.shared.lend()
    assert len(requests.opened) == 2
    three.close()


class Positions:
    def __init__(self) -> None:
        self.closed = False

    def position(self, partition: Partition) -> int | None:
        return partition.partition

    def problem(self) -> None: ...

    def close(self) -> None:
        assert not self.closed
        self.closed = True


def test_positions_are_read_until_the_last_task_closes() -> None:
    opened: list[Positions] = []

    def open_reader() -> Positions:
        opened.append(Positions())
        return opened[-1]

    shared = SharedPositions(open_reader)
    one, two = shared.lend(), shared.lend()
    assert one.position(Partition("t", 3)) == 3
    one.close()
    one.close()
    assert two.problem() is None
    assert not opened[0].closed
    two.close()
    assert opened[0].closed
    shared.lend()
    assert len(opened) == 2
