"""Identify the operator of a command, for the records of their actions."""

import getpass
import os
import socket
from typing import Final

VARIABLE: Final = "KSTORM_OPERATOR"
"""Identifies the operator to a command that runs in a pod."""


def operator() -> str:
    """Return user and host."""
    if told := os.environ.get(VARIABLE):
        return told
    try:
        user = getpass.getuser()
    # Many containers run with a user ID without a name.
    except (OSError, KeyError):
        user = "?"
    return f"{user}@{socket.gethostname()}"
