"""The images under test: built here, and given to the cluster by the command in KSTORM_IMAGE_LOADER."""

from typing import Final

from rich.console import Console

from kstorm.errors import LocalError
from kstorm.local.images.__main__ import main as build_images

_TARGETS: Final = ("spout", "bolt", "acker", "kafka", "zookeeper")


def make_images(console: Console, build: bool, short: bool) -> list[str]:
    """The tags of the release, and of the one that it is upgraded to, which differs in its labels only."""
    tags = ["e2e-1"] if short else ["e2e-1", "e2e-2"]
    targets = _TARGETS if short else (*_TARGETS, "pipeline")
    for tag in tags if build else ():
        console.print(f"building the images {tag}")
        if build_images([*targets, "--tag", tag]):
            raise LocalError(f"the images {tag} were not built")
    return tags
