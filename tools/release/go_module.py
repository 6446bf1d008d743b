#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes bindings/go of the commit as the archive of a Go module, the same bytes each time: go_module.py SOURCE VERSION OUT.zip

Every name begins with the module's and its version, as the module proxy has it. (git archive writes the time of now into the archive of a folder.)
"""
import subprocess
import sys
import zipfile


def main():
    source, version, out = sys.argv[1:]

    def git(*words):
        return subprocess.run(["git", "-C", source, *words], capture_output=True, check=True).stdout

    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(git("ls-tree", "-r", "-z", "--name-only", "HEAD:bindings/go").decode().split("\0")):
            if not name:
                continue
            info = zipfile.ZipInfo(f"quarry.dev/quarry@v{version}/{name}", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o100644 << 16
            archive.writestr(info, git("cat-file", "blob", f"HEAD:bindings/go/{name}"))


if __name__ == "__main__":
    main()
