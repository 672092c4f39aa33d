"""Run the command ``mquine``. ``python -m mquine`` does the same."""

import os
import subprocess
import sys

from . import _environment, _not_started, executable


def main() -> None:
    line = [executable(), *sys.argv[1:]]
    try:
        if os.name == "nt":  # exec would return to the shell before the command ends
            sys.exit(subprocess.call(line, env=_environment()))
        os.execvpe(line[0], line, _environment())
    except OSError as error:
        sys.exit("mquine: %s" % _not_started(line[0], error))
    except KeyboardInterrupt:  # the command has received Ctrl-C, too
        sys.exit(130)


if __name__ == "__main__":
    main()
