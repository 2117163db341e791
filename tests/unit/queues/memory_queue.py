"""A queue in memory with the rules of real queues: an open message has one reader."""

from collections import deque
from itertools import count

from kstorm.errors import KstormError
from kstorm.kafka import SchemeAsMultiScheme, StringScheme
from kstorm.queues import (
    QUEUES,
    KestrelSpout,
    QueueMessage,
    QueueMessageId,
    QueuePorts,
    QueueSpout,
    RabbitMQConfig,
    RabbitMQSpout,
)


class MemoryQueue:
    """The queue of all readers opened by its ports. A new reader disconnects the earlier ones."""

    def __init__(self, *messages: bytes) -> None:
        self.waiting = deque(messages)
        self.done: list[bytes] = []
        """The acked messages, in order."""
        self.readers: list[MemoryReader] = []
        self.opened_with: list[object] = []
        """The arguments of each opening."""
        self.resources = {QUEUES: QueuePorts(self._open, self._open)}

    @property
    def open(self) -> list[bytes]:
        return [value for reader in self.readers for value in reader.open.values()]

    def _open(self, *arguments: object) -> "MemoryReader":
        for reader in self.readers:
            reader.disconnect()
        self.opened_with.append(arguments)
        self.readers.append(MemoryReader(self, len(self.readers)))
        return self.readers[-1]


class MemoryReader:
    """A `QueueReader` that has prefetched two messages."""

    def __init__(self, queue: MemoryQueue, number: int) -> None:
        self._queue, self._number, self._tags = queue, number, count()
        self._ahead: deque[QueueMessage] = deque()
        self.open: dict[QueueMessageId, bytes] = {}
        self.started = False
        self.closed = False
        self.failing: KstormError | None = None

    def start(self) -> None:
        self.started = True
        self._fetch()

    def pause(self) -> None:
        self.started = False
        while self._ahead:
            self.put_back(self._ahead.popleft().id)

    def take(self) -> QueueMessage | None:
        message = self._ahead.popleft() if self._ahead else None
        self._fetch()
        return message

    def ack(self, id: QueueMessageId) -> None:
        self._queue.done.append(self.open.pop(id))

    def put_back(self, id: QueueMessageId) -> None:
        self._queue.waiting.append(self.open.pop(id))

    def problem(self) -> KstormError | None:
        return self.failing

    @property
    def connections(self) -> int:
        return int(self.started)

    async def close(self) -> None:
        self.closed = True
        self.disconnect()

    def disconnect(self) -> None:
        self._ahead.clear()
        while self.open:
            self._queue.waiting.append(self.open.popitem()[1])

    def _fetch(self) -> None:
        while self.started and len(self._ahead) < 2 and self._queue.waiting:
            id = QueueMessageId(self._number, next(self._tags))
            self.open[id] = self._queue.waiting.popleft()
            self._ahead.append(QueueMessage(id, self.open[id]))


def spouts() -> list[QueueSpout]:
    """Builds one spout of each kind, on a queue of lines."""
    rabbit = RabbitMQSpout(RabbitMQConfig("lines", scheme=SchemeAsMultiScheme(StringScheme())))
    return [rabbit, KestrelSpout("localhost", 22133, "lines", StringScheme())]
