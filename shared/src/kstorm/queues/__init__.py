"""Spouts for message queues that keep a message until it is processed: RabbitMQ and Kestrel."""

from kstorm.queues.kestrel_config import HostInfo, KestrelConfig, hosts_for_task
from kstorm.queues.kestrel_spout import KestrelSpout
from kstorm.queues.ports import QUEUES, QueueMessage, QueueMessageId, QueuePorts, QueueReader
from kstorm.queues.rabbitmq_config import RabbitMQConfig, RabbitMQTls
from kstorm.queues.rabbitmq_spout import RabbitMQSpout
from kstorm.queues.spout import QueueSpout

__all__ = [
    "QUEUES",
    "HostInfo",
    "KestrelConfig",
    "KestrelSpout",
    "QueueMessage",
    "QueueMessageId",
    "QueuePorts",
    "QueueReader",
    "QueueSpout",
    "RabbitMQConfig",
    "RabbitMQSpout",
    "RabbitMQTls",
    "hosts_for_task",
]
