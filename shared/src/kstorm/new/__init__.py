"""`kstorm new NAME`: makes a project from a template, with a test, values for the chart and an image.

It needs no extra. A template is a folder of this package. `newproject` in its files becomes the
project's name, and `newmodule` the name of its Python module.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final

from kstorm.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of project."""

    about: str
    topics: tuple[str, ...]
    """The topics that it reads and writes."""
    message: str
    """One of the messages that it reads."""
    reference: str = "newmodule:topology"
    """The topology, as commands name it."""
    extra: str = ""
    """The extra of kstorm that the project needs, in brackets."""


TEMPLATES: Final = {
    "wordcount": Template("Counts words exactly once.", ("lines", "words"), "the cow"),
    "orders": Template(
        "Sums up orders by customer, and refuses improper ones.",
        ("orders", "totals"),
        '{"id": "o-17", "customer": "Ann", "amount": "3.20"}',
    ),
    "windows": Template(
        "Counts the clicks on each page in each minute.",
        ("clicks", "minutes"),
        '{"page": "/cart", "at": 1700000000000}',
    ),
    "trident": Template("Counts words with Trident's streams.", ("lines", "words"), "the cow"),
    "yaml": Template(
        "Counts words; a YAML file connects the bolts.",
        ("lines", "words"),
        "the cow",
        "topology.yaml",
        "[flux]",
    ),
}
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a project. Return the exit code: 2 if it cannot be made."""
    options = _parser().parse_args(arguments)
    try:
        folder = make(options.name, options.template, Path.cwd())
    except ConfigError as error:
        print(f"kstorm new: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        place = error.filename or Path.cwd()
        print(f"kstorm new: {place} cannot be made: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{folder.name} is in {folder}. Its README.md explains how to test, run and deploy it:\n")
    print(f"    cd {folder.name}")
    print("    pip install -e '.[dev]'")
    print("    pytest")
    return 0


def make(name: str, template: str, place: Path) -> Path:
    """Make the project as a new folder in `place`, and return the folder."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name: use small letters, digits and -, such as my-words"
        )
    if module in sys.stdlib_module_names or module == "kstorm":
        raise ConfigError(f"{name!r} is the name of a Python module: choose another one")
    folder = place / name
    if folder.exists():
        raise ConfigError(f"{folder} exists already: choose another name, or remove it")
    contents = dict(_contents(template))
    words = _words(TEMPLATES[template]) | {
        "newcomponents": contents.pop("components").rstrip(),
        "newproject": name,
        "newmodule": module,
        "newversion": version("kstorm"),
    }
    for path, text in contents.items():
        file = folder / _replaced(path, words)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_replaced(text, words), encoding="utf-8")
    return folder


def _words(template: Template) -> dict[str, str]:
    """Return the words of a template in the common files. Their values contain names."""
    topics = " ".join(f"--topic {topic}:6" for topic in template.topics)
    return {
        "newabout": template.about,
        "newextra": template.extra,
        "newreference": template.reference,
        "newtopics": topics,
        "newsource": template.topics[0],
        "newsink": template.topics[-1],
        "newmessage": template.message,
    }


def _contents(template: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file."""
    for part in ("common", template):
        for file in (files(__name__) / "templates" / part).iterdir():
            yield file.name.removesuffix(".template"), file.read_text(encoding="utf-8")


def _replaced(text: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kstorm new",
        description="Make a project that runs, with a test that crashes its parts.",
    )
    parser.add_argument("name", metavar="NAME", help="such as my-words; also the folder's name")
    parser.add_argument(
        "--template",
        choices=TEMPLATES,
        default="wordcount",
        help=" ".join(f"{name}: {each.about}" for name, each in TEMPLATES.items()),
    )
    return parser
