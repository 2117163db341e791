"""`kstorm`: finds the command that the user names, and starts it.

Only this module, `kstorm new` and their imports work without extras. So the list of commands is
here, and a command's modules are imported when it is started.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, NoReturn

_CLI: Final = "kstorm.cli.__main__"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of `kstorm`."""

    name: str
    about: str
    extra: str
    """The extra of the package `kstorm` that brings what the command imports, or ""."""
    module: str = _CLI
    """The module whose `main` runs the command with the arguments after the name. `kstorm.cli` also
    gets the name."""
    starts: tuple[str, ...] = ()
    """Modules that the command needs only later, such as those of its processes."""


GROUPS: Final = {
    "on this machine": (
        Command("new", "Make a project: a topology, its test, image and values.", "", "kstorm.new"),
        Command(
            "dev",
            "Run a topology, and restart it when its code changes.",
            "local",
            "kstorm.dev.topology",
            ("watchfiles", "maven_artifact", "kstorm_acker", "kstorm_bolt", "kstorm_spout"),
        ),
        Command(
            "demo",
            "Count words, kill processes, check the result.",
            "demo",
            "kstorm.dev.demo.__main__",
            ("rich", "kstorm_acker", "kstorm_bolt", "kstorm_spout", "kstorm_pipeline"),
        ),
        Command("ui", "Show topologies in a browser.", "local"),
    ),
    "messages": (
        Command("produce", "Send each line of standard input to a topic.", "cli"),
        Command("consume", "Print the records of a topic.", "cli"),
        Command("why", "Explain why a message is not done.", "cli"),
        Command("trace", "Show the tuple tree of a message.", "cli"),
        Command("export-traces", "Send tuple trees to an OpenTelemetry collector.", "otel"),
        Command("dlq", "Read, replay, edit and discard dead letters.", "cli"),
        Command("offsets", "Show and move the offsets of a KafkaSpout.", "cli"),
        Command("state", "Read the state of a topology's bolts.", "cli"),
    ),
    "topologies": (
        Command("status", "Show what runs, here and on Kubernetes, and its condition.", "control"),
        Command("topology", "List and inspect topologies.", "control"),
        Command("activate", "Make deactivated spouts emit again.", "cli"),
        Command("deactivate", "Stop a topology's spouts.", "cli"),
        Command("drain", "Deactivate, and wait until nothing is in flight.", "cli"),
        Command("scale", "Change the number of pods of components.", "control"),
        Command("restart", "Replace the pods one by one.", "control"),
        Command("kill", "Drain a topology and scale it to 0.", "control"),
        Command("logs", "Print the logs of a topology's pods.", "control"),
        Command("causes", "List what slows a topology down.", "cli"),
        Command("events", "List what operators have done to a topology.", "cli"),
        Command("probe", "Check that every task has a process.", "cli"),
    ),
    "deployment": (
        Command("values", "Print the Helm values of a topology.", "cli"),
        Command("prepare", "Check a deployment and create its topics.", "cli"),
        Command("flux-schema", "Print the JSON Schema of topologies in YAML.", "cli"),
        Command("migrate", "Come over from Storm: Flux files, offsets, a comparison.", "cli"),
    ),
}
HIDDEN: Final = ("forget", "lag", "note")
"""Commands that other commands and the chart start in pods."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command, by default with the process's arguments."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    match words:
        case [] | ["--help" | "-h" | "help"]:
            print(_help())
        case ["--version" | "-V"]:
            print(f"kstorm {version('kstorm')}")
        case [name, *others]:
            raise SystemExit(_run(_find(name), name, others))
    raise SystemExit(0)


def _find(name: str) -> Command:
    commands = {command.name: command for group in GROUPS.values() for command in group}
    if name in commands:
        return commands[name]
    if name in HIDDEN:
        return Command(name, "", "cli")
    return _fail(f"there is no command {name!r}: `kstorm --help` lists the commands")


def _run(command: Command, name: str, arguments: list[str]) -> object:
    """Run a command. Return its exit code."""
    try:
        for module in command.starts:
            if importlib.util.find_spec(module) is None:
                raise ModuleNotFoundError(name=module)
        main = importlib.import_module(command.module).main
    except ModuleNotFoundError as error:
        if not _brought_by_extra(error.name):
            raise
        _fail(
            f"`kstorm {name}` needs the package {error.name!r}, which is not installed:"
            f" pip install 'kstorm[{command.extra}]'"
        )
    return main([name, *arguments] if command.module == _CLI else arguments)


def _brought_by_extra(module: str | None) -> bool:
    """Return False for a module of the library itself, whose absence is a defect."""
    return module is not None and module.partition(".")[0] != "kstorm"


def _help() -> str:
    lines = [
        "usage: kstorm COMMAND [ARGUMENTS]",
        "",
        "Apache Storm's guaranteed message processing.",
    ]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {command.name:<14} {command.about}" for command in commands]
    lines += [
        "",
        "`kstorm COMMAND --help` explains a command. `kstorm --version` prints the version.",
    ]
    return "\n".join(lines)


def _fail(problem: str) -> NoReturn:
    print(f"kstorm: {problem}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
