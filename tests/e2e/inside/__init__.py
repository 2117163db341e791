"""Programs that run in pods: they feed and audit with plain clients."""
