"""Where the page learns what runs and how it does: the processes of this machine, pods on Kubernetes, Kafka."""
