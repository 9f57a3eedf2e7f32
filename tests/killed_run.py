"""`simkit run` that kills itself at a given file: called by tests with study, folder, the number of the file and the step in it."""

import os
import signal
import sys

if __name__ == "__main__":
    study, folder, last, step = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    real = {name: getattr(os, name) for name in ("fsync", "replace")}
    files = 0

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fsync(handle):
        if step == "half written" and files + 1 == last:
            stop()
        return real["fsync"](handle)

    def replace(source, target):
        global files
        files += 1
        if step == "before" and files == last:
            stop()
        real["replace"](source, target)
        if step == "after" and files == last:
            stop()

    os.fsync, os.replace = fsync, replace
    from simkit.cli import main

    sys.exit(main(["run", study, "--out", folder, "--overwrite"] if last == 0 else ["run", study, "--out", folder]))
