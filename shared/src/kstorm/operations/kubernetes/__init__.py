"""A topology on Kubernetes: its workloads and pods, and commands in them."""
