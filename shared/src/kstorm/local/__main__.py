"""`python -m kstorm.local VERB`: what `./run` asks of this package.

`prepare` fetches the jars and notes the classes of Spark, `machine-java` exits with 0 if the machine has a Java of its own that
will do and with 1 if not, `lock-jars` writes the lists of jars anew.
"""

import argparse
import sys
from importlib.util import find_spec

from kstorm.errors import KstormError
from kstorm.local import classes, jarlock, jars, java
from kstorm.printable import printable


def main() -> int:
    """Run one verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kstorm.local")
    parser.add_argument("verb", choices=["prepare", "machine-java", "lock-jars"])
    try:
        match parser.parse_args().verb:
            case "prepare":
                jars.prepare()
                if find_spec("kstorm_pipeline") is not None:
                    classes.make_archive()
            case "machine-java":
                return 0 if java.machine_java() else 1
            case _:
                jarlock.write_lists()
    except KstormError as error:
        print(f"kstorm: {printable(str(error))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
