"""Storm's guaranteed message processing for Python, on Kafka and Kubernetes."""
