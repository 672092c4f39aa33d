"""Run the command ``mquine``. ``python -m mquine`` does the same."""

import os
import subprocess
import sys

from . import executable


def main() -> None:
    line = [executable(), *sys.argv[1:]]
    if os.name == "nt":  # exec would return to the shell before the command ends
        try:
            sys.exit(subprocess.call(line))
        except KeyboardInterrupt:  # the command has received Ctrl-C, too
            sys.exit(130)
    os.execv(line[0], line)


if __name__ == "__main__":
    main()
