"""Which addresses are this machine's own."""


def is_own(host: str) -> bool:
    """Whether only this machine reaches it."""
    return host in ("localhost", "::1") or host.startswith("127.")
