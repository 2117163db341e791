"""Measures how much of the prose breaks a rule of docs/development/style.md.

`tools/english.json` holds the percentage of sentences per folder that may break one. It can only fall:
`tests/unit/docs/test_english.py` compares it with the present share. A rule finds places to look at. It cannot judge whether
prose is good.
"""

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

from tools.prose import READERS, sentences

ROOT = Path(__file__).parents[1]
LIMITS = ROOT / "tools" / "english.json"
LONGEST = 25
# Smaller falls, in percentage points, come and go with the number of other sentences.
NOTABLE_FALL = 0.5
SHOWN = 30

_MEASURED = ("docs", "helm", "shared", "services", "examples", "tests", "tools")
# The children of these folders have limits of their own.
_DIVIDED = ("shared/src/kstorm", "services", "tests")

_OLD_WORDS = (
    r"anew|amid|beside|alike|in vain|for ever|for want of|all else|but for|nothing (\w+ ){0,3}but|at hand|reckon(s|ed|ing)?"
    r"|mend(s|ed|ing)?|known holes?|tid(y|ies|ied) up|of before|an? (older|earlier) life|be it|such ones?|ought to|lest|whence"
    r"|thereby|thrice"
)
_PHRASES = (
    r"the way of an?|goes by|go(es)? on|lets? go|comes? of it|bec[ao]mes? of|stops? to \w+|ha(s|ve) no \w+ but"
    r"|(stands?|stood) (still|on|behind|at)|lies? (on|behind|before|in)|hangs? on|begins? (behind|elsewhere|no)|ends no"
    r"|so (many|much)( of)?(?! (that|as)\b)|no part of|none counts|as if nothing|(what|as) (it|he|they|one) likes?"
    r"|by (itself|themselves)|not missed|comes? twice"
)
_OPENINGS = r"and|but for|how|nor|not what|of|so no|those|what|whether|which|whose|why"
_PRONOUNS = r"all|each|him|it|one|others|them|those"
_ARTICLES = r"all|an?|another|each|its|one|the|their|your"
_ACTS = r"ask|be|begin|emit|fail|give|go|hear|make|print|read|repeat|send|show|stay|stop|tell|wait|write"
_NOT_UNITS = r"and|as|because|for|from|gives|has|in|is|of|or|than|that|to|when|with|without"
_UNITS = (
    r"batch|bolt|component|container|epoch|host|key|line|message|partition|pod|process|record|row|seed|table|task|topic|tree"
    r"|tuple|word"
)
_NOT_NEGATED = r"better|different|earlier|faster|later|less|longer|more|slower|way|worse"


class Rule(NamedTuple):
    """A pattern of sentences that read like a translation."""

    name: str
    advice: str
    pattern: re.Pattern[str]


def _rule(name: str, advice: str, pattern: str) -> Rule:
    return Rule(name, advice, re.compile(pattern, re.IGNORECASE))


RULES = [
    _rule("old-word", "use the modern word", rf"\b({_OLD_WORDS})\b|(^|, )else\b"),
    _rule("phrase", "use the verb or noun of the field", rf"\b({_PHRASES})\b"),
    _rule(
        "speech",
        "name the act, such as logs, returns, reports, explains or receives",
        r"\b(tells?|told|hears?|heard|says?|said)\b",
    ),
    _rule(
        "no-actor",
        "name the process, the command or the person",
        r"\b(whoever|(any|every|no|some)body)\b|(^|[;:] )who (can|gives?|has|is|may|reads?|takes?|writes?)\b",
    ),
    _rule(
        "opening",
        "start with the subject",
        rf"^({_OPENINGS})\b(?!.*\?$)|^(as|where)\b(?! \w+ as\b)[^,?]*$",
    ),
    _rule(
        "inverted",
        "start with the subject",
        r"^(behind|beside|by(?! default)|from|into|to) [^,;:]{1,60} (none|nothing|only|there) (are|comes?|is|was|were)\b",
    ),
    _rule(
        "clause-as-noun",
        "use a noun instead of the clause",
        r"\b(at|by|for|from|in|into|of|on|than|to|with) what"
        r" (are|can(not)?|comes?|had|has|is|it|may|they|waits?|was|were)\b|\bthose that\b|\ball that (are|is|was|were)\b",
    ),
    _rule(
        "negated-noun",
        "write 'is not a …' or 'has no …'",
        rf"(?<!there )\b(are|is|was|were) ((?-i:none)\b|no (?!({_NOT_NEGATED})\b)\w)",
    ),
    _rule(
        "causative",
        "write 'makes … read', or name the event",
        rf"\b(had|has|have|having) (({_PRONOUNS})( \w+)?|({_ARTICLES})( (?!to\b)\w+){{1,2}}) ({_ACTS})\b",
    ),
    _rule(
        "per",
        "write 'per'",
        rf"\b(an?|one|\d+([.,]\d+)*) (?!({_NOT_UNITS})\b)[\w-]+ an? ({_UNITS})\b",
    ),
    _rule("long", f"split it: at most {LONGEST} words", rf"^(\S+ ){{{LONGEST},}}\S"),
]


class Hit(NamedTuple):
    """A sentence that breaks a rule."""

    file: str
    line: int
    rule: Rule
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule.name} ({self.rule.advice}): {self.sentence}"


class Share(NamedTuple):
    """The findings in a folder, and the number of its sentences."""

    findings: list[Hit]
    total: int

    @property
    def percent(self) -> float:
        """The share in percent, rounded up to a tenth."""
        return ceil(1000 * len(self.findings) / max(self.total, 1)) / 10


def broken_rule(sentence: str) -> Rule | None:
    """Return the first rule that a sentence breaks."""
    return next((rule for rule in RULES if rule.pattern.search(sentence)), None)


def measure(paths: Iterable[Path]) -> dict[str, Share]:
    """Return the shares of the folders that the files belong to."""
    found: dict[str, list[Hit]] = {}
    totals: dict[str, int] = {}
    for file in _files(paths):
        name = file.resolve().relative_to(ROOT).as_posix()
        findings = found.setdefault(folder(name), [])
        for line, sentence in sentences(file):
            totals[folder(name)] = totals.get(folder(name), 0) + 1
            if rule := broken_rule(sentence):
                findings.append(Hit(name, line, rule, sentence))
    return {name: Share(found[name], totals.get(name, 0)) for name in sorted(found)}


def everything() -> list[Path]:
    """Return the folders and pages that have limits."""
    return [*sorted(ROOT.glob("*.md")), *(ROOT / name for name in _MEASURED)]


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        found = path.rglob("*") if path.is_dir() else [path]
        yield from sorted(file for file in found if file.suffix in READERS and file.is_file())


def folder(file: str) -> str:
    """Return the name that the limit of a file has in `tools/english.json`."""
    for divided in _DIVIDED:
        if file.startswith(divided + "/"):
            child, slash, _ = file.removeprefix(divided + "/").partition("/")
            return f"{divided}/{child}" if slash else divided
    return file.partition("/")[0]


def limits() -> dict[str, float]:
    """Return the percentages of `tools/english.json`. A folder that it does not name may have no finding."""
    found: dict[str, float] = json.loads(LIMITS.read_text())
    return found


def risen(shares: Mapping[str, Share], limits: Mapping[str, float]) -> list[str]:
    """Return a report of each folder whose share exceeds its limit. Its files come newest first."""
    reports = []
    for name, share in shares.items():
        if share.percent > limits.get(name, 0):
            newest = sorted(share.findings, key=lambda finding: -_changed(finding))
            lines = [*map(str, newest[:SHOWN]), *["…"][: len(newest) > SHOWN]]
            reports.append(
                f"{name}: {share.percent} % of {share.total} sentences break a rule, and at most {limits.get(name, 0)} % may:"
                " rewrite some of\n  " + "\n  ".join(lines)
            )
    return reports


def _changed(finding: Hit) -> float:
    return (ROOT / finding.file).stat().st_mtime


def fallen(shares: Mapping[str, Share], limits: Mapping[str, float]) -> list[str]:
    """Return a report of each limit that can be lowered."""
    return [
        f"{name}: {percent} % break a rule, and {limit} % may"
        for name, limit in limits.items()
        if (percent := shares[name].percent if name in shares else 0.0) + NOTABLE_FALL <= limit
        or percent == 0
    ]


def lowered(shares: Mapping[str, Share], limits: Mapping[str, float]) -> dict[str, float]:
    """Return the present shares as limits. Raises `ValueError` if that would raise one."""
    if reports := risen(shares, limits):
        raise ValueError("\n".join(reports))
    return {name: share.percent for name, share in shares.items() if share.percent > 0}


def main() -> int:
    """Print the shares; return 1 if one exceeds its limit."""
    parser = argparse.ArgumentParser(prog="python -m tools.english", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the sentences that break a rule")
    parser.add_argument("--write", action="store_true", help="lower the limits where possible")
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders (default: all)")
    options = parser.parse_intermixed_args()
    if options.write and options.paths:
        parser.error("--write needs the shares of everything: leave out the paths")
    shares, now = measure(options.paths or everything()), limits()
    if options.write:
        try:
            now = lowered(shares, now)
        except ValueError as error:
            print(error)
            return 1
        LIMITS.write_text(json.dumps(now, indent=2) + "\n")
    for name, share in shares.items():
        if options.list:
            print(*(f"{finding}\n" for finding in share.findings), sep="", end="")
        counts = f"{len(share.findings)} of {share.total}"
        print(f"{name:28} {counts:>13} {share.percent:5.1f} %  allowed {now.get(name, 0):5.1f} %")
    return int(bool(risen(shares, now)) and not options.paths)


if __name__ == "__main__":
    raise SystemExit(main())
