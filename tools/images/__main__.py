"""`./run images [TARGET …]`: builds the images and prints their sizes.

    ./run images                          all, as kstorm-<target>:<version of kstorm>
    ./run images bolt acker --tag dev1    some, with your own tag
    ./run images --push ghcr.io/you       all, and each to that registry, for this kind of machine
    ./run images --topology examples/docker/Dockerfile --name wordcount
                                          also wordcount-spout, -bolt and -acker, made from ours

If `KSTORM_IMAGE_LOADER` is set, that command runs with the name of each image, to load it into a
cluster. A table of sizes goes to standard output, the build's output to standard error.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from kstorm.dev.jars import fix_spark, lay_out
from kstorm.errors import LocalError
from tools.images.engine import Engine, find_engine, load
from tools.images.push import built, push
from tools.images.registries import write_secrets

SERVICES: Final = ("spout", "bolt", "acker")
TARGETS: Final = (*SERVICES, "ui", "pipeline", "kafka", "zookeeper")
_WITHOUT_JARS: Final = frozenset((*SERVICES, "ui"))
_ROOT: Final = Path(__file__).parents[2]
_DOCKERFILE: Final = _ROOT / "docker/Dockerfile"
_MADE_BASE: Final = "kstorm-base:bookworm"
_PARTS: Final = "/usr/share/kstorm/parts.cdx.json"
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def main(argv: Sequence[str] | None = None) -> int:
    """Build the requested images. Return the exit code. Raises `LocalError` if a build fails."""
    options = parse(argv)
    engine = find_engine()
    if options.built:
        push(engine, built(engine, options.targets, options.tag), options.push, options.digests)
        return 0
    base = options.base or default_base()
    if not engine.has(base):
        _pull(engine, base)
    images = build_services(engine, options.targets, base, options.tag)
    folder = write_parts(engine, images)
    if options.topology:
        images += build_topology(engine, options.topology, options.name, options.tag)
    if loader := os.environ.get("KSTORM_IMAGE_LOADER"):
        for image in images:
            load(image, loader)
    print(table({image: engine.size(image) for image in images}, engine.size(base)))
    print(f"the list of its parts is in {folder}, and in the image in {_PARTS}")
    if options.push:
        push(engine, images, options.push, options.digests)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse and check the arguments."""
    parser = argparse.ArgumentParser(
        prog="./run images", description="Builds kstorm's container images."
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"which; default: {', '.join(TARGETS)}"
    )
    parser.add_argument(
        "--tag", default=version("kstorm"), help="their tag (default: the version, %(default)s)"
    )
    parser.add_argument("--base", metavar="IMAGE", default=os.environ.get("KSTORM_BASE_IMAGE"),
                        help="the base image: Debian with Python 3.11 or later (default: KSTORM_BASE_IMAGE, or"
                        f" {default_base()}); docker/make-base makes one")  # fmt: skip
    parser.add_argument("--topology", type=Path, metavar="DOCKERFILE",
                        help="a Dockerfile FROM ${KSTORM_IMAGE}, built for spout, bolt and acker")  # fmt: skip
    parser.add_argument(
        "--name", default="topology", help="name of its images: NAME-spout … (default: %(default)s)"
    )
    parser.add_argument(
        "--push", metavar="REGISTRY", help="push each to this registry, such as ghcr.io/you"
    )
    parser.add_argument(
        "--built", action="store_true", help="with --push: push existing images, build none"
    )
    parser.add_argument(
        "--digests", type=Path, metavar="FILE", help="with --push: write what was pushed to a file"
    )
    options = parser.parse_args(argv)
    if (options.built or options.digests) and not options.push:
        parser.error("--built and --digests need --push")
    if unknown := sorted(set(options.targets) - set(TARGETS)):
        parser.error(f"there is no target {unknown[0]!r}: give some of {', '.join(TARGETS)}")
    if not _TAG.fullmatch(options.tag):
        parser.error(
            f"--tag {options.tag!r}: a tag has letters, digits, '_', '.' and '-', at most 128"
        )
    if options.topology and not options.topology.is_file():
        parser.error(f"--topology {options.topology}: there is no such file")
    options.targets = options.targets or list(TARGETS)
    return options


def build_services(engine: Engine, targets: Sequence[str], base: str, tag: str) -> list[str]:
    """Build targets of our Dockerfile with cached or fetched jars. Return the image names."""
    arguments = {"BASE_IMAGE": base}
    # Not by an ARG for a LABEL: buildah takes such a layer from its cache whatever the ARG is.
    labels = {
        "org.opencontainers.image.version": tag,
        "org.opencontainers.image.revision": revision(),
        "org.opencontainers.image.base.name": base,
    }
    images = {target: f"kstorm-{target}:{tag}" for target in targets}
    with tempfile.TemporaryDirectory(prefix="kstorm-images-") as folder:
        secrets = write_secrets(Path(folder))
        jars = Path(folder, "jars")
        if not _WITHOUT_JARS.issuperset(targets):
            fix_spark()
            lay_out(jars)
        for target, image in images.items():
            contexts = {} if target in _WITHOUT_JARS else {"jars": jars}
            engine.build(
                _DOCKERFILE,
                _ROOT,
                image,
                target=target,
                arguments=arguments,
                labels=labels,
                secrets=secrets,
                contexts=contexts,
            )
    return list(images.values())


def write_parts(engine: Engine, images: Sequence[str]) -> Path:
    """Copy the bill of materials out of each image into a folder of the checkout. Return the
    folder."""
    folder = Path(os.environ.get("KSTORM_HOME", _ROOT / ".kstorm"), "images")
    folder.mkdir(parents=True, exist_ok=True)
    for image in images:
        (folder / f"{image.replace(':', '-')}.cdx.json").write_text(engine.read(image, _PARTS))
    return folder


def build_topology(engine: Engine, dockerfile: Path, name: str, tag: str) -> list[str]:
    """Build a user's Dockerfile on top of each of our services, in the current folder."""
    images = {service: f"{name}-{service}:{tag}" for service in SERVICES}
    for service, image in images.items():
        engine.build(
            dockerfile, Path.cwd(), image, arguments={"KSTORM_IMAGE": f"kstorm-{service}:{tag}"}
        )
    return list(images.values())


def _pull(engine: Engine, base: str) -> None:
    try:
        engine.pull(base)
    except LocalError as error:
        raise LocalError(
            f"the base image {base} is not on this machine, and {error}. Where no image can be pulled, docker/make-base makes one "
            f"of Debian's packages, as root and with debootstrap: then give --base {_MADE_BASE}"
        ) from None


def default_base() -> str:
    """Return the base image named in the Dockerfile."""
    found = re.search(r"^ARG BASE_IMAGE=(\S+)$", _DOCKERFILE.read_text(), re.MULTILINE)
    if found is None:
        raise LocalError(f"{_DOCKERFILE} has no line ARG BASE_IMAGE=…")
    return found[1]


def revision() -> str:
    """Return the commit of the checkout, with `-dirty` if it has changes. `unknown` outside git."""
    command = [
        "git",
        "-C",
        str(_ROOT),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def table(sizes: dict[str, int], base: int) -> str:
    """Format one line per image: its own layers over the base, and the total, in MB (10⁶ bytes,
    unpacked)."""
    width = max(map(len, sizes))
    lines = [f"{'image':{width}}  own layers, MB  with the base, MB"]
    lines += [
        f"{image:{width}}  {(size - base) / 1e6:14.1f}  {size / 1e6:17.1f}"
        for image, size in sizes.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run_command("images", main))
