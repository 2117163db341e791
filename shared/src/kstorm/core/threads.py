"""The calling thread.

The core starts no thread and holds no lock. It only compares the thread that calls with the one
that runs the task.
"""

from threading import current_thread, get_ident

__all__ = ["current_thread", "get_ident"]
