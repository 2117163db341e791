"""`./run demo`: word count from a Kafka topic to a Spark table, watched live, broken on the way, and audited."""
