"""simkit on the command line."""

import contextlib
import os
import sys
from collections.abc import Sequence

from .._errors import SimkitError
from ._environment import keep_interrupts
from ._parser import build_parser
from ._runs import INTERRUPTED, TERMINATED
from ._signals import NOTHING, Terminated, leave, obeyed_signals


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `simkit`; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = build_parser()
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
        code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except SimkitError as error:
        print(f"simkit: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"simkit: {error}", file=sys.stderr)
        return 2
    if own and code in (INTERRUPTED, TERMINATED):
        leave(code)
    return code
