# SPDX-License-Identifier: Apache-2.0
"""The program `quarry` that the wheel holds: `quarry doctor`, or `python -m quarry doctor`."""

import os
import sys

from ._library import NATIVE


def main() -> None:
    program = os.path.join(NATIVE, "bin", "quarry")
    if not os.path.exists(program):
        sys.exit(f"quarry: there is no program at '{program}': the package was not installed from its wheel")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
