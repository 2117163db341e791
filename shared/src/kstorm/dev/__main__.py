"""`python -m kstorm.dev prepare`: fetch the jars of the servers and of Spark, and compile the bytecode.

`prepare-servers` fetches only the jars of the servers.
"""

import argparse
import sys

from kstorm.dev.command_exit import run_command
from kstorm.dev.jars import prepare_servers
from kstorm.dev.prepare import prepare


def main() -> int:
    """Run the verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kstorm.dev")
    parser.add_argument("verb", choices=["prepare", "prepare-servers"])
    if parser.parse_args().verb == "prepare":
        prepare()
    else:
        prepare_servers()
    return 0


if __name__ == "__main__":
    sys.exit(run_command("kstorm", main))
