"""Who gives a command: what is kept of it, beside what was done."""

import getpass
import os
import socket
from typing import Final

VARIABLE: Final = "KSTORM_OPERATOR"
"""Says it to a command that is run in a pod for somebody elsewhere."""


def operator() -> str:
    """The user and the machine."""
    if told := os.environ.get(VARIABLE):
        return told
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        user = "?"
    return f"{user}@{socket.gethostname()}"
