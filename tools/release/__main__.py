"""`./run release --dry-run [FOLDER]`: tries on this machine what a tag publishes.

It builds the packages, pushes images and chart to a registry that it starts, pulls the chart from
there, and compares. With `--cluster` it also installs the release. It calls the scripts that
`.github/workflows/release.yml` calls.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from kstorm.dev.command_exit import run_command
from kstorm.errors import ConfigError
from tools.packages import ROOT, version
from tools.release import trial
from tools.release.registry import running_registry

_Result = TypeVar("_Result")
_DEFAULT: Final = ROOT / ".kstorm" / "release"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trial and return the exit code."""
    options = _parse(arguments)
    if not options.dry_run:
        raise ConfigError(
            f"a release is published by its tag: git tag v{version()} && git push origin"
            f" v{version()}. `./run release --dry-run` tries it here"
        )
    if options.cluster and not (options.cluster / "up").is_file():
        raise ConfigError(f"--cluster {options.cluster}: there is no script `up` in that folder")
    if options.cluster and options.no_images:
        raise ConfigError("--cluster needs the images: leave out --no-images")
    folder: Path = options.folder.absolute()
    print("packages:", _timed(trial.build, folder))
    with running_registry(folder / "registry") as address:
        registry, charts = f"{address}/kstorm", f"{address}/kstorm/charts"
        print(f"registry: {address}")
        images: list[str] = []
        if options.no_images:
            (folder / "images.txt").write_text("")
        else:
            images = _timed(trial.push_images, folder, registry, options.images)
            for image in images:
                print("image:", image)
            trial.write_values(folder, images)
        print("chart: pulled as it was packed, sha256", _timed(trial.push_chart, folder, charts))
        print("signed:", _timed(trial.sign, folder))
        print("rendered from the registry:", _timed(trial.render, folder, charts, images))
        if options.cluster:
            cluster = options.cluster.absolute()
            print("installed:", _timed(trial.install, folder, charts, cluster))
    print(f"the files of the release are in {folder}")
    return 0


def _timed(step: Callable[..., _Result], *arguments: Any) -> _Result:
    started = time.monotonic()
    result = step(*arguments)
    print(f"[{time.monotonic() - started:5.1f} s] ", end="", flush=True)
    return result


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./run release", description="Tries on this machine what a tag publishes."
    )
    parser.add_argument("folder", type=Path, nargs="?", default=_DEFAULT, metavar="FOLDER")
    parser.add_argument("--dry-run", action="store_true", help="publish nothing (required)")
    parser.add_argument(
        "--images", default="", metavar="TAG", help="push the images of this tag, build none"
    )
    parser.add_argument("--no-images", action="store_true", help="push no images")
    parser.add_argument(
        "--cluster", type=Path, metavar="FOLDER", help="install there: a folder with up and down"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run_command("./run release", main))
