"""`./run demo`: word count from a Kafka topic to a Spark table, watched live, with two processes killed, and audited."""
