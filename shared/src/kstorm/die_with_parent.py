"""`python die_with_parent.py PARENT_PID COMMAND…`: become COMMAND, which the kernel kills when its
parent dies.

Linux's parent-death signal survives `exec`, but the child itself must request it. Requesting it
here, in a fresh process, avoids running Python between `fork` and `exec` in a multithreaded parent.
On other systems this program only becomes COMMAND. It does not import kstorm, so it starts within
20 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request the signal, check that the parent is still alive, and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("the parent died before its child had started")
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
