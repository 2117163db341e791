"""The chart accepts the helm commands of the documentation, with the values files on the same page."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstorm.cli.__main__ import main
from tests import tutorial
from tests.chart.conftest import KUBERNETES

ROOT = Path(__file__).parents[2]
FIRST = tutorial.START / "first-topology.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "helm" / "kstorm" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def blocks(page: Path) -> Iterator[str]:
    """Yield the code blocks of a page."""
    yield from re.findall(r"(?ms)^```\w+\n(.*?)\n```$", page.read_text())


def helm_commands(page: Path) -> Iterator[list[str]]:
    """Yield each install and upgrade command as a list of words."""
    for inline in re.findall(r"`(helm (?:install|upgrade) [^`]* -f [^`]*)`", page.read_text()):
        yield shlex.split(inline)
    for block in blocks(page):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"helm (install|upgrade) ", line):
                yield shlex.split(line, comments=True)


def values_files(page: Path) -> Iterator[str]:
    """Yield the contents of `cluster.yaml`: the blocks whose title or first line names it.

    A page without such a block uses that of the page on Kubernetes.
    """
    for named in (page, ROOT / "docs" / "guides" / "kubernetes.md"):
        found = [block for block in blocks(named) if block.startswith("# cluster.yaml\n")]
        found += [block.text for block in tutorial.blocks(named) if block.title == "cluster.yaml"]
        if found:
            yield from found
            return


def test_pages_about_helm_have_commands() -> None:
    assert {page.name for page in PAGES if list(helm_commands(page))} >= {
        "README.md",
        "kubernetes.md",
        "deploy.md",
    }


@pytest.mark.parametrize(
    "page", [page for page in PAGES if list(helm_commands(page))], ids=lambda page: page.stem
)
def test_documented_commands_can_be_installed(
    helm: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    page: Path,
) -> None:
    """The page defines `cluster.yaml`, and `kstorm values` writes the other file."""
    (tmp_path / "kstorm").mkdir()
    (tmp_path / "kstorm" / "helm").symlink_to(ROOT / "helm")
    (tmp_path / "hello").mkdir()
    monkeypatch.chdir(tmp_path / "hello")  # the tutorial's folder, next to a clone
    Path("helm").symlink_to(ROOT / "helm")
    texts = [block for block in tutorial.blocks(FIRST) if block.title == "hello.py"]
    Path("hello.py").write_text("".join(block.text for block in texts))
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "hello", raising=False)
    codes = {
        "wordcount": ["examples.wordcount.topology:topology"],
        "hello": ["hello:topology", "--files"],
    }
    if page.stem == "move-from-storm":
        for block in tutorial.blocks(page):
            if block.title.endswith(".py"):
                Path(block.title).write_text(block.text)
        codes |= {name: ["word_count:topology"] for name in ("word-count", "canary")}
    for name, code in codes.items():
        with pytest.raises(SystemExit):
            main(["values", *code])
        Path(f"{name}.yaml").write_text(capsys.readouterr().out)
    for cluster in values_files(page):
        Path("cluster.yaml").write_text(cluster)
        for words in helm_commands(page):
            # The chart of a release is that of the clone: test_release.py.
            local = [re.sub(r"^oci://.*/kstorm$", "helm/kstorm", word) for word in words[2:]]
            done = helm("template", "--kube-version", KUBERNETES, *local)
            assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
