"""The objects that the garbage collector of a service visits, and its frequency."""

import subprocess
import sys

_SHOW = """
import gc
from kstorm.runtime.service.run import set_up_garbage_collection
set_up_garbage_collection()
print(gc.isenabled(), gc.get_freeze_count() > 10_000, gc.get_threshold()[0] >= 5_000)
class Gone:
    made = gone = 0
    def __init__(self): self.me = self; Gone.made += 1
    def __del__(self): Gone.gone += 1
for _ in range(50_000): Gone()
print(Gone.made - Gone.gone < 20_000)
"""


def test_start_objects_are_frozen_and_cycles_are_still_collected() -> None:
    """Tuples in hand do not trigger frequent collections.

    A component's own cycles are freed in time.
    """
    shown = subprocess.run(
        [sys.executable, "-c", _SHOW], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split() == ["True"] * 4
