# SPDX-License-Identifier: Apache-2.0
"""The program `quarry` that the wheel holds: `quarry doctor`, or `python -m quarry doctor`."""

import os
import sys

from ._library import NATIVE


def main() -> None:
    program = os.path.join(NATIVE, "bin", "quarry.exe" if os.name == "nt" else "quarry")
    if not os.path.exists(program):
        sys.exit(f"quarry: there is no program at '{program}': the package was not installed from its wheel")
    if os.name == "nt":  # where exec ends this process before the program has
        import subprocess

        sys.exit(subprocess.call([program, *sys.argv[1:]]))
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
