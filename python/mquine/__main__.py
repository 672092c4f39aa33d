"""Run the command ``mquine``. ``python -m mquine`` does the same."""

import os
import subprocess
import sys
from typing import List

from . import _environment, _not_started, executable


def main() -> None:
    line = [executable(), *sys.argv[1:]]
    try:
        if os.name == "nt":  # exec would return to the shell before the command ends
            sys.exit(_call(line))
        os.execvpe(line[0], line, _environment())
    except OSError as error:
        sys.exit("mquine: %s" % _not_started(line[0], error))


def _call(line: List[str]) -> int:
    """Run a command, and return its exit status."""
    process = subprocess.Popen(line, env=_environment())
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the command has received Ctrl-C, too: let it finish
            pass


if __name__ == "__main__":
    main()
