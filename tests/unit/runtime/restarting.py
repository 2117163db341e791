"""A service that starts again in place when it reads a line: `python -m tests.unit.runtime.restarting FOLDER PORT`.

The second start takes some seconds, as on a busy machine.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from kstorm.errors import TasksLostError
from kstorm.runtime.base import log
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import make_app
from kstorm.runtime.service.outage import restart_if_cut_off
from kstorm.runtime.service.pages import add_pages
from tests.unit.runtime.serving import Idle, alive

SLOW_SECS = 2.0


async def main(folder: Path, port: int) -> None:
    settings = Settings(topology="a:b", data_dir=folder, web_host="127.0.0.1", web_port=port)
    app = make_app("t-sink", settings, Idle())
    add_pages(app, alive())
    if "KSTORM_BEGUN_ANEW" in os.environ:
        time.sleep(SLOW_SECS)
    await app.start()
    print("serves", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    if "KSTORM_BEGUN_ANEW" not in os.environ:
        restart_if_cut_off(
            TasksLostError("others have them"),
            settings,
            log.configure("INFO", "json", service="bolt", component="sink"),
        )
    await app.stop()
    print("closed", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
