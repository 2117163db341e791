"""`./run images`: builds the container images of docker/Dockerfile, weighs them, hands them to a cluster."""
