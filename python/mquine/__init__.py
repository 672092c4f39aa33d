"""Evaluate, compare and query knowledge graph embeddings with mquine.

The functions run the command ``mquine``, which is part of this package, and return its JSON results
as dictionaries::

    import mquine

    result = mquine.evaluate("./checkpoint", "umls", filter="all")

Keyword arguments are the flags of the corresponding command, with underscores in place of hyphens:
``ci_by="relation"`` stands for ``--ci-by relation``, ``hits=[1, 10]`` for ``--hits 1,10``, and
``all_ties=True`` for ``--all-ties``. A list is also the value of a flag that may be repeated:
``relation=["isa", "affects"]`` of ``discover`` stands for ``--relation isa --relation affects``. For
example, ``mquine eval --help`` lists the flags of ``evaluate``.
Where the command accepts several checkpoints for ``ensemble``, the function accepts a list of them.

Notes of a command, such as the reason why figures differ from published ones, become warnings.
"""

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

__all__ = [
    "Error", "classify", "compare", "discover", "evaluate", "executable", "predict", "run", "score", "similar",
]

try:
    __version__ = importlib.metadata.version("mquine")
except importlib.metadata.PackageNotFoundError:  # imported from the sources
    __version__ = "0"

Path = Union[str, bytes, "os.PathLike[str]"]
Paths = Union[Path, Iterable[Path]]

# The flags that the command line repeats for several values. Lists for other flags have commas.
_REPEATED = {
    "eval": ["--candidate-type", "--head-type", "--tail-type"],
    "predict": ["--candidate-type", "--head-type", "--tail-type"],
    "discover": ["--candidate-type", "--head-type", "--tail-type", "--relation"],
}


class Error(Exception):
    """A command failed. The message is its error line: what is wrong, where, and what to do."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        #: The exit status: 1 for bad input or failed work, 2 for wrong usage, -n after signal n.
        self.status = status


def executable() -> str:
    """Return the path of the command in this package, unless ``MQUINE`` names another command.

    This environment variable is a path, or the name of a command in a folder of ``PATH``.
    """
    chosen = os.environ.get("MQUINE")
    if chosen:
        return shutil.which(chosen) or chosen
    return str(pathlib.Path(__file__).with_name("bin") / ("mquine.exe" if os.name == "nt" else "mquine"))


def evaluate(checkpoint: Paths, data: Path, **options: Any) -> Dict[str, Any]:
    """Rank the triples of a split with a checkpoint, and return the metrics.

    ``data`` is the name of an installed data set or the path of a folder.
    """
    return _json("eval", *_several(checkpoint), data=data, **options)


def compare(checkpoints: Paths, data: Path, **options: Any) -> Dict[str, Any]:
    """Compare checkpoints, with paired intervals and p-values. The first checkpoint is the baseline."""
    return _json("compare", *_several(checkpoints), data=data, **options)


def predict(
    checkpoint: Paths,
    data: Path,
    *,
    relation: Optional[str] = None,
    head: Optional[str] = None,
    tail: Optional[str] = None,
    **options: Any,
) -> Dict[str, Any]:
    """Return the best answers to a query. Give two of ``head``, ``relation`` and ``tail``; mquine predicts the third.

    For many queries, give a file with ``in_`` instead.
    """
    return _json("predict", *_several(checkpoint), data=data, relation=relation, head=head, tail=tail, **options)


def discover(checkpoint: Paths, data: Path, **options: Any) -> Dict[str, Any]:
    """Return the most plausible triples that a data set does not contain."""
    return _json("discover", *_several(checkpoint), data=data, **options)


def score(checkpoint: Paths, triples: Path, **options: Any) -> Dict[str, Any]:
    """Return the scores of the triples in a file, whose lines are a head, a relation and a tail, separated by tabs."""
    return _json("score", *_several(checkpoint), in_=triples, **options)


def classify(checkpoint: Paths, data: Path, **options: Any) -> Dict[str, Any]:
    """Measure how well scores tell true triples from false ones, with thresholds from the validation split."""
    return _json("classify", *_several(checkpoint), data=data, **options)


def similar(checkpoint: Path, *entities: str, **options: Any) -> Dict[str, Any]:
    """Return the entities that are most similar to each given entity."""
    return _json("similar", checkpoint, *entities, **options)


def run(command: str, *arguments: Path, **options: Any) -> str:
    """Run any command, such as ``run("data get", "umls")``, and return its standard output.

    Notes on standard error become warnings. Other lines there, such as the progress, are not shown.
    """
    line = [executable(), *command.split(), *_flags(command, options), "--"]
    line += [_text(command, "the argument", argument) for argument in arguments]
    try:
        process = subprocess.Popen(
            line, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            encoding="utf-8", errors="replace",
        )
    except OSError as error:
        raise _not_started(line[0], error) from None
    try:
        output, messages = process.communicate()
    except BaseException:  # such as KeyboardInterrupt: do not leave the command running
        process.terminate()
        process.communicate()
        raise
    lines = messages.strip().splitlines()
    if process.returncode < 0:
        raise Error(
            "mquine %s was killed by signal %d: if it needs more memory than the machine has, make the work smaller"
            % (command, -process.returncode), process.returncode
        )
    if process.returncode != 0:
        raise Error(
            lines[-1] if lines else "mquine %s ended with status %d" % (command, process.returncode), process.returncode
        )
    for line in lines:
        if line.startswith("note: "):
            _warn("mquine %s: %s" % (command, line[len("note: "):]))
    return output


def _warn(message: str) -> None:
    """Issue a warning that names the line which called this module."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals is globals():
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _environment() -> Dict[str, str]:
    """Return the environment of the command.

    It lacks ``MQUINE``, because this variable may name the script that pip installs with this
    package. The script would start itself again and again.
    """
    return {name: value for name, value in os.environ.items() if name != "MQUINE"}


def _not_started(command: str, error: OSError) -> Error:
    """Return the error for a command that the system cannot start."""
    return Error(
        "%s cannot be started (%s): install the package again, or set MQUINE to the path of the command"
        % (command, error.strerror), 1
    )


def _json(command: str, *arguments: Path, **options: Any) -> Dict[str, Any]:
    if "json" in options:
        raise Error("mquine %s: leave out json: the function returns the JSON result" % command, 2)
    try:
        return json.loads(run(command, *arguments, json="-", **options))
    except json.JSONDecodeError:  # a help text, or the output of another program
        raise Error(
            "mquine %s: %s has printed no JSON result: leave out help, and if MQUINE is set, let it name mquine"
            % (command, executable()), 1
        ) from None


def _several(paths: Any) -> List[Path]:
    """Return a list of paths, or a list of a single path."""
    return list(paths) if _is_list(paths) else [paths]


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike, Mapping))


def _flags(command: str, options: Mapping[str, Any]) -> List[str]:
    flags = []
    for name, value in options.items():
        if value is None:
            continue
        flag = "--" + name.rstrip("_").replace("_", "-")
        if _is_list(value):
            texts = [_text(command, flag, element) for element in value]
            if isinstance(value, (set, frozenset)):  # their order may change from process to process
                texts.sort(key=lambda text: (len(text), text))
            if flag not in _REPEATED.get(command, []) or not texts:  # the command refuses the empty text
                texts = [",".join(texts)]
        else:
            texts = [_text(command, flag, value)]
        flags += ["%s=%s" % (flag, text) for text in texts]
    return flags


def _text(command: str, name: str, value: Any) -> str:
    """Return a value as the command line contains it. The name is for errors."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike)):
        raise Error("mquine %s: %s cannot be %r: give a text, a number or a path" % (command, name, value), 2)
    try:
        text = os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
        os.fsencode(text)
        reason = "a NUL character" if "\0" in text else ""
    except UnicodeError as error:
        reason = str(error)
    if reason:
        raise Error(
            "mquine %s: %s %r cannot be passed to the command (%s): remove this character"
            % (command, name, value, reason), 2
        )
    return text
