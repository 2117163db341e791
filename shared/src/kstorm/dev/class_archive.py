"""The archive of the Java classes that a short run of Spark loads. Java maps the archive into
memory and starts faster.

Java writes the archive at the end of a run that exists only for that purpose
(`kstorm_pipeline.rehearsal`). Java uses the archive only with the same Java and the same jars in
the same order, and otherwise ignores it silently. It takes a minute to make the archive, which
saves some seconds per run. So kstorm makes it at low priority after the first demo, or while tests
run.
"""

import os
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kstorm import die_with_parent
from kstorm.dev.jars import spark_jars
from kstorm.dev.java import SHORT_RUN_OPTIONS, find_java, spark_environment, spark_home
from kstorm.dev.paths import cache_directory, exclusive

_SILENT: Final = "-Xlog:cds*=off"
_LONGEST_SECS: Final = 600.0
_NICE: Final = 19
_KEPT: Final = 2


def short_run_options() -> str:
    """JVM options for a short Spark run, including the archive of classes if it exists."""
    archive = _archive()
    return (
        f"{SHORT_RUN_OPTIONS} {java_option('-XX:SharedArchiveFile', archive)} {_SILENT}"
        if archive.exists()
        else SHORT_RUN_OPTIONS
    )


def make_in_background() -> None:
    """Start a process that makes the archive, unless the archive exists. The process outlives this
    one and runs at low priority."""
    if _is_missing(_archive()):
        subprocess.Popen(
            [sys.executable, "-m", "kstorm.dev.class_archive"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def make_archive() -> None:
    """Make the archive, unless it exists. If that fails, the reason is written to a file next to
    it, and no process tries again until that file is removed."""
    archive = _archive()
    if not _is_missing(archive):
        return
    with exclusive(archive.with_suffix(".lock")):
        if not _is_missing(archive):
            return
        failed, unfinished = archive.with_suffix(".failed"), archive.with_suffix(".unfinished")
        options = (
            f"{SHORT_RUN_OPTIONS} {java_option('-XX:ArchiveClassesAtExit', unfinished)} {_SILENT}"
        )
        command = [
            *(sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())),
            *(sys.executable, "-m", "kstorm_pipeline.rehearsal"),
            ",".join(map(str, spark_jars())),
            options,
        ]
        environment = {**os.environ, **spark_environment()}
        try:
            subprocess.run(
                command, env=environment, capture_output=True, timeout=_LONGEST_SECS, check=True
            )
            unfinished.replace(archive)
        except (OSError, subprocess.SubprocessError) as error:
            unfinished.unlink(missing_ok=True)
            written = (getattr(error, "stderr", None) or b"").decode(errors="replace")
            failed.write_text(f"{error}\n{written}")
        _remove_old_archives(archive.parent)


def java_option(name: str, file: Path) -> str:
    """Return a Java option that names a file. Spark splits the options at spaces that are not
    between quotes."""
    return f'{name}="{file}"' if " " in str(file) else f"{name}={file}"


def _is_missing(archive: Path) -> bool:
    return not archive.exists() and not archive.with_suffix(".failed").exists()


def _archive() -> Path:
    """Return the archive's file. Its name depends on the Java and on the set of jars."""
    java, jars = find_java(), (*sorted((spark_home() / "jars").glob("*.jar")), *spark_jars())
    parts = [
        str(java.home),
        *(f"{jar} {jar.stat().st_size} {int(jar.stat().st_mtime)}" for jar in jars),
    ]
    digest = sha256(os.fsencode(os.linesep.join(parts))).hexdigest()
    return cache_directory() / "classes" / f"{digest[:16]}.jsa"


def _remove_old_archives(folder: Path) -> None:
    """Keep only the two newest archives, because each has about 200 MB."""
    found = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for each in found[_KEPT:]:
        each.unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(_NICE)
    if find_spec("kstorm_pipeline") is not None:
        make_archive()
