"""The images under test: built here, and loaded by the command in KSTORM_IMAGE_LOADER."""

from typing import Final

from rich.console import Console

from kstorm.errors import LocalError
from tools.images.__main__ import SERVICES
from tools.images.__main__ import main as build_images

_SERVERS: Final = ("kafka", "zookeeper")


def make_images(console: Console, build: bool, short: bool) -> list[str]:
    """Return the tags of the release and of its upgrade, which differ only in their labels."""
    whole = (*SERVICES, *_SERVERS)
    images = {"e2e-1": whole} if short else {"e2e-1": (*whole, "pipeline"), "e2e-2": SERVICES}
    for tag, targets in images.items() if build else ():
        console.print(f"building the images {tag}")
        if build_images([*targets, "--tag", tag]):
            raise LocalError(f"the images {tag} were not built")
    return list(images)
