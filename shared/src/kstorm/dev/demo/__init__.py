"""`./run demo`: count words from a Kafka topic into a Spark table, with a live view, two killed
processes, and an audit."""
