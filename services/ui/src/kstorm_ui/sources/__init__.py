"""Sources of the web UI's data: local processes, pods on Kubernetes, Kafka."""
