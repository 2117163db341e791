"""`python die_with_parent.py PARENT_PID COMMAND…`: becomes COMMAND, which the kernel kills when its parent dies.

The parent-death signal of Linux survives `exec` but must be asked for in the child itself. Doing so here, in a fresh
process, avoids running Python between `fork` and `exec` in a parent that has threads. On other systems this only becomes
COMMAND. It imports nothing of kstorm, so that it starts in 20 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, make sure that the parent had not died before, become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("the parent died before its child had started")
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
