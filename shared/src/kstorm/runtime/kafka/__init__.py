"""What talks to Kafka: the consumer that brings tasks, the producer, checkpoints, topics, KafkaSpout's and KafkaBolt's ends."""
