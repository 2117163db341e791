"""A topology on a real cluster, with everything operators do to it, and an audit: `./run e2e`.

It requires only a kubeconfig, kubectl and helm. The programs that talk to Kafka run in pods
(`inside`).
"""
