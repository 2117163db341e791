"""The floor of the runtime: settings, log, metrics, secrets. It imports nothing else of the runtime."""
