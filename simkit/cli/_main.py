"""simkit on the command line."""

import contextlib
import os
import sys
from collections.abc import Sequence

from .._errors import SimkitError
from ._answer import error_json
from ._environment import keep_interrupts
from ._parser import build_parser
from ._runs import INTERRUPTED, TERMINATED
from ._signals import NOTHING, Terminated, leave, obeyed_signals

SYSTEM = "system"
"""The code of an error of the operating system, such as a disk that is full."""


def _tell(error: Exception, code: str, machine: bool) -> None:
    """Say what went wrong: a sentence on stderr, or with `--json` a document on stdout."""
    if machine:
        print(error_json(code, type(error).__name__, str(error)))
    else:
        print(f"simkit: {error}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `simkit`; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    machine = "--json" in words
    parser = build_parser(machine)
    options = parser.parse_args(words)
    options.command_line = " ".join(["simkit", *words])
    own = arguments is None  # the process is that of the command
    watched = own and not getattr(options, "debug", False)  # a debugger has its own use for Ctrl-C
    code = 0
    try:
        with keep_interrupts(), obeyed_signals() if watched else contextlib.nullcontext():
            code = options.handler(options)
    except KeyboardInterrupt as error:
        print(f"\n{NOTHING}", file=sys.stderr)
        if machine:
            name = "terminated" if isinstance(error, Terminated) else "interrupted"
            print(error_json(name, type(error).__name__, NOTHING))
        code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except SimkitError as error:
        _tell(error, error.code, machine)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _tell(error, SYSTEM, machine)
        return 2
    if own and code in (INTERRUPTED, TERMINATED):
        leave(code)
    return code
