"""`./run images`: builds the container images of docker/Dockerfile, prints their sizes and loads
them into a cluster."""
