"""`RabbitMQSpout`: emits a RabbitMQ queue's messages and acks each when its tree is complete.

    scheme = SchemeAsMultiScheme(StringScheme())
    config = RabbitMQConfig("sentences", hosts=["rabbit"], scheme=scheme)
    builder.set_spout("sentences", RabbitMQSpout(config), 2)

`ack` is basic.ack, and `fail` is basic.nack with requeue. When the connection ends, RabbitMQ
requeues its open messages. Tasks share the queue, each with its own consumer.
"""

from kstorm.fitting import checked
from kstorm.queues.ports import QueuePorts, QueueReader
from kstorm.queues.rabbitmq_config import RabbitMQConfig
from kstorm.queues.spout import QueueSpout
from kstorm.topology import Config, TopologyContext


class RabbitMQSpout(QueueSpout):
    """A spout that reads a RabbitMQ queue."""

    @checked()
    def __init__(self, config: RabbitMQConfig) -> None:
        super().__init__(config.queue, config.scheme)
        self.rabbitmq_config = config

    def open_reader(
        self, ports: QueuePorts, config: Config, context: TopologyContext
    ) -> QueueReader:
        """Open one consumer, whose prefetch count is the task's limit of messages in flight."""
        return ports.open_rabbitmq(
            self.rabbitmq_config, self.rabbitmq_config.prefetch(config.topology_max_spout_pending)
        )
