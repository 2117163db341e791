"""What runs in pods: it feeds and audits, with plain clients."""
