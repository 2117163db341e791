"""A topology on a real cluster, disturbed in every way that an operator would, and audited: `./run e2e`.

It asks for a kubeconfig, kubectl and helm, and nothing else: what talks to Kafka runs in pods (`inside`).
"""
