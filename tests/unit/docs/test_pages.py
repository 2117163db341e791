"""The pages of the documentation: every link has a target, and every name of the code exists."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
SOURCES = ROOT / "shared" / "src" / "kstorm"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "helm").rglob("*.md")),
]
ABOUT_CODE = [
    DOCS / "development" / "architecture.md",
    DOCS / "development" / "changing.md",
    DOCS / "reference" / "metrics.md",
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """Return a page without code blocks and comments."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    return re.sub(r"(?s)<!--.*?-->", "", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes from a page's headings."""
    headings = re.findall(r"(?m)^#+ (.*)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links and pictures that are not on the web."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_have_targets(page: Path) -> None:
    """The target is a file of the repository, and a heading in it."""
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(found), (
                f"{name_of(page)} links to {target}; the headings are {sorted(anchors(found))}"
            )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_blocks_are_fenced_with_a_language(page: Path) -> None:
    """An indented block has no language, so no reader highlights it."""
    assert re.findall(r"\n\n    \S.*", outside_lists(prose(page))) == []
    fences = re.findall(r"(?m)^ *```(.*)$", page.read_text())
    assert [fence for fence in fences[::2] if not re.fullmatch(r"\w+( .*)?", fence)] == []
    assert set(fences[1::2]) <= {""}


def outside_lists(text: str) -> str:
    """Return a page without its lists, whose paragraphs are indented too."""
    return re.sub(r"(?m)^(?:[*-]|\d+\.) .*\n(?:(?: +.*)?\n)*", "\n", text)


def test_index_lists_every_page() -> None:
    """docs/README.md lists all pages that no index of a folder below it lists."""
    indexes = sorted(DOCS.rglob("README.md"))
    pages = set(DOCS.rglob("*.md")) - {DOCS / "README.md"}
    linked = {
        (index.parent / target.partition("#")[0]).resolve()
        for index in indexes
        for target in links(index)
    }
    assert pages <= linked, f"no index links to {sorted(map(name_of, pages - linked))}"


def test_pages_that_other_files_name_exist() -> None:
    """An error or a docstring may name a page of docs/. A page that moves must not leave it behind."""
    folders = ["shared", "services", "tests", "tools", "helm", "examples", "docker"]
    files = [
        ROOT / "run",
        *(
            file
            for folder in folders
            for suffix in ("py", "yaml", "json", "txt", "tpl", "md")
            for file in (ROOT / folder).rglob(f"*.{suffix}")
        ),
    ]
    named = 0
    for file in files:
        for page in re.findall(r"(?<![\w/.-])docs/[\w/-]+\.md\b", file.read_text()):
            named += 1
            assert (ROOT / page).exists(), f"{name_of(file)} names {page}: there is no such page"
    assert named > 20


def code(page: Path) -> list[str]:
    """Return the texts between backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


@pytest.mark.parametrize("page", ABOUT_CODE, ids=name_of)
def test_named_files_and_definitions_exist(page: Path) -> None:
    """A path starts at the repository or at shared/src/kstorm.

    In `path::name` the file defines the name.
    """
    named = 0
    for span in code(page):
        path, _, name = span.partition("::")
        if "/" not in path or not re.fullmatch(r"[\w][\w./*-]*", path):
            continue
        named += 1
        files = [found for base in (ROOT, SOURCES) for found in base.glob(path.rstrip("/"))]
        assert files, f"{name_of(page)} names {span}: there is no such file"
        if name:
            assert name in defined(files[0]), f"{name_of(page)} names {span}: it is not there"
    assert named > 0


@pytest.mark.parametrize("page", ABOUT_CODE, ids=name_of)
def test_named_methods_exist(page: Path) -> None:
    """This checks every `Class.method` between backticks."""
    members = {name for file in SOURCES.rglob("*.py") for name in defined(file)}
    classes = {name.partition(".")[0] for name in members if "." in name}
    for span in code(page):
        if re.fullmatch(r"[A-Z]\w+\.\w+", span) and span.partition(".")[0] in classes:
            assert span in members, f"{name_of(page)} names {span}: it is not there"


@cache
def defined(file: Path) -> set[str]:
    """Return the names that a module defines: `Class`, `Class.member`, `function`, `CONSTANT`."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        for name in names(node):
            found.add(name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for inner in node.body for name in names(inner)}
            found |= {
                f"{node.name}.{name}" for inner in ast.walk(node) for name in own_attributes(inner)
            }
    return found


def names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def own_attributes(node: ast.AST) -> Iterator[str]:
    """Yield the attributes of `self` that a method sets."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
            yield name
