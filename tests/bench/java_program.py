"""`python -m tests.bench.java_program NAME`: a contestant in Java, with its jars from Maven.

The program is one source file, compiled before the contestant's first record, so outside of all
measured windows.
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from kstorm.dev.jars import parse_list
from kstorm.dev.java import Java, find_java
from kstorm.dev.maven import PinnedJar, download, where
from kstorm.dev.paths import cache_directory, exclusive
from kstorm.errors import LocalError
from tests.bench.run_parameters import from_environment

_FOLDER: Final = Path(__file__).with_name("java")


@dataclass(frozen=True, slots=True)
class JavaProgram:
    source: str
    """The file in `tests/bench/java`."""
    jars: str
    """The list in the same folder, without `.sha256`."""


PROGRAMS: Final = {
    "kafka-streams": JavaProgram("StreamsWordCount.java", "kafka-streams-4.1.2"),
    "storm": JavaProgram("StormWordCount.java", "storm-2.8.3"),
}


def run_program(name: str) -> int:
    """Compile the program and replace this process by it. Raises `LocalError` if that fails."""
    program, folder = PROGRAMS[name], from_environment().directory
    java = find_java()
    jars = os.pathsep.join(map(str, fetch(program.jars)))
    _compile(java, _FOLDER / program.source, jars, folder)
    options = ["-Xmx2g", f"-Djava.io.tmpdir={folder}", "-cp", os.pathsep.join((str(folder), jars))]
    os.execv(java.executable, [str(java.executable), *options, Path(program.source).stem])


def _compile(java: Java, source: Path, jars: str, target: Path) -> None:
    compiler = java.home / "bin" / "javac"
    if not compiler.exists():
        raise LocalError(
            f"the Java in {java.home} has no compiler, which Kafka Streams and Storm need here: install "
            "a JDK, or leave them out with --only"
        )
    command: list[str | Path] = [compiler, "-nowarn", "-cp", jars, "-d", target, source]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise LocalError(f"{source} does not compile:\n{compiled.stderr[-2000:]}")


def fetch(list_name: str) -> list[Path]:
    """Return the jars of a list, fetched if they are not in the cache."""
    pinned = parse_list(_FOLDER / f"{list_name}.sha256")
    folder = cache_directory() / "jars" / f"bench-{list_name}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_name(f".{folder.name}.lock")):
        try:
            for _ in download(pinned, folder):
                pass
        except OSError as error:
            raise LocalError(
                f"the jars of {list_name} cannot be fetched: {error}. {where()}"
            ) from None
        return [_verified(folder / jar.file_name, jar) for jar in pinned]


def _verified(path: Path, jar: PinnedJar) -> Path:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != jar.sha256:
        path.unlink()
        raise LocalError(
            f"{path.name} has SHA-256 {found}, but the list expects {jar.sha256}. It was removed: run "
            "the command again"
        )
    return path


if __name__ == "__main__":
    sys.exit(run_command("kstorm bench java", lambda: run_program(sys.argv[1])))
