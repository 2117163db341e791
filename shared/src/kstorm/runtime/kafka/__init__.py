"""Kafka clients of the runtime: task consumer, producers, checkpoints, topics, and the clients of
`KafkaSpout` and `KafkaBolt`."""
