"""`RabbitMQSpout`: emits the messages of a RabbitMQ queue, which keeps each until its tuple tree is complete.

    config = RabbitMQConfig("sentences", hosts=["rabbit"], scheme=SchemeAsMultiScheme(StringScheme()))
    builder.set_spout("sentences", RabbitMQSpout(config), 2)

`ack` is basic.ack; `fail` is basic.nack with requeue; what is open when the connection ends, RabbitMQ puts back. Tasks
share the queue: each is a consumer of its own.
"""

from kstorm.queues.ports import QueuePorts, QueueReader
from kstorm.queues.rabbitmq_config import RabbitMQConfig
from kstorm.queues.spout import QueueSpout
from kstorm.topology import Config, TopologyContext


class RabbitMQSpout(QueueSpout):
    """A spout on a RabbitMQ queue."""

    def __init__(self, config: RabbitMQConfig) -> None:
        super().__init__(config.queue, config.scheme)
        self.rabbitmq_config = config

    def open_reader(
        self, ports: QueuePorts, config: Config, context: TopologyContext
    ) -> QueueReader:
        """Opens one consumer, which gets no more messages than this task may have in flight."""
        return ports.open_rabbitmq(
            self.rabbitmq_config, self.rabbitmq_config.prefetch(config.topology_max_spout_pending)
        )
