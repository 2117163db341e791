"""Recognise loopback addresses."""


def is_loopback(host: str) -> bool:
    """Return True if the host is only reachable from this machine."""
    return host in ("localhost", "::1") or host.startswith("127.")
