"""The lowest layer of the runtime: settings, log, metrics, secrets. It imports no other part of the
runtime."""
