"""Files that `docker/install` keeps and removes. Its programs run here on small folders."""

import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

INSTALL = (Path(__file__).parents[3] / "docker" / "install").read_text()


def run_part(function: str, *arguments: Path) -> None:
    """Run the Python program within a function of the script."""
    found = re.search(rf"(?ms)^{function}\(\) {{.*?<<'END'\n(.*?)^END$", INSTALL)
    assert found
    subprocess.run([sys.executable, "-c", found[1], *arguments], check=True)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_image_adds_only_what_differs_from_the_layers_below(tmp_path: Path) -> None:
    """Bytecode of the same source may differ, and is not added."""
    below, own = tmp_path / "below", tmp_path / "own"
    write(below, {"a.py": "1", "__pycache__/a.cpython-311.pyc": "x", "b/b.py": "1", "c.py": "1"})
    write(own, {"a.py": "1", "__pycache__/a.cpython-311.pyc": "y", "b/b.py": "1", "c.py": "2"})
    write(own, {"d/d.py": "1", "d/__pycache__/d.cpython-311.pyc": "z"})
    for folder in (below, own):
        (folder / "lib64").symlink_to("lib")
    run_part("keep_difference", below, own)
    kept = {str(path.relative_to(own)) for path in own.rglob("*") if not path.is_dir()}
    assert kept == {"c.py", "d/d.py", "d/__pycache__/d.cpython-311.pyc"}
    assert not (own / "b").exists()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names are those of this machine")
def test_jar_keeps_its_classes_and_the_library_of_this_machine(tmp_path: Path) -> None:
    jar = tmp_path / "rocksdbjni-1.jar"
    names = ["A.class", "librocksdbjni-linux64.so", "librocksdbjni-linux64-musl.so"]
    names += ["librocksdbjni-win64.dll", "linux/amd64/libzstd.so", "linux/aarch64/libzstd.so"]
    names += ["Linux/x86_64/libsnappyjava.so", "Mac/x86_64/libsnappyjava.dylib"]
    with zipfile.ZipFile(jar, "w") as file:
        for name in names:
            file.writestr(name, name)
    run_part("keep_native", jar)
    with zipfile.ZipFile(jar) as file:
        kept = [
            "librocksdbjni-linux64.so",
            "linux/amd64/libzstd.so",
            "Linux/x86_64/libsnappyjava.so",
        ]
        assert file.namelist() == ["A.class", *kept]
        assert file.read("A.class") == b"A.class"


def test_java_has_the_module_that_spark_demands() -> None:
    """spark-submit passes --add-modules=jdk.incubator.vector, and Java ends without it."""
    modules = ",".join(re.findall(r"(?m)^modules=(.*)$", INSTALL)).split(",")
    assert {"java.se", "jdk.incubator.vector", "jdk.unsupported", "jdk.crypto.ec"} <= set(modules)
