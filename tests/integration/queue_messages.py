"""Takes messages from the reader of any queue."""

from kstorm.queues import QueueMessage, QueueReader
from tests.integration.until import until


async def take(reader: QueueReader, number: int = 1) -> list[QueueMessage]:
    taken: list[QueueMessage] = []

    def enough() -> bool:
        while len(taken) < number and (message := reader.take()) is not None:
            taken.append(message)
        return len(taken) == number

    await until(enough)
    return taken
