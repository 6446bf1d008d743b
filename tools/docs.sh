#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the documentation site and checks its links.
#   tools/docs.sh [DIR]    the site is DIR/site/index.html (default: build-docs)
# mkdocs with its theme goes into a venv of its own, at the versions of docs/site/requirements.txt. Doxygen's pages of the headers are added where
# doxygen is installed. Exit status 77: what mkdocs needs cannot be had here; the last line says why.
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
work=${1:-$root/build-docs}
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 1
venv=$work/venv
if ! cmp -s "$root/docs/site/requirements.txt" "$venv/requirements.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv" >"$work/pip.log" 2>&1 &&
    "$venv/bin/pip" install -q --disable-pip-version-check --retries 2 --timeout 30 -r "$root/docs/site/requirements.txt" >>"$work/pip.log" 2>&1 ||
    { echo "mkdocs cannot be installed here: $(tail -n 1 "$work/pip.log")"; exit 77; }
  cp "$root/docs/site/requirements.txt" "$venv/requirements.txt"
fi
rm -rf "$work/src" "$work/site"
mkdir -p "$work/src"
if command -v doxygen >/dev/null; then
  { cat "$root/docs/site/Doxyfile"
    echo "INPUT = \"$root/include/quarry\""
    echo "STRIP_FROM_PATH = \"$root/include\""
    echo "OUTPUT_DIRECTORY = \"$work/src\""
    echo "INPUT_FILTER = \"python3 $root/docs/site/doxygen_filter.py\""
  } | doxygen - >"$work/doxygen.log" 2>&1 || { cat "$work/doxygen.log"; exit 1; }
  if grep -q warning "$work/doxygen.log"; then
    grep -A 2 warning "$work/doxygen.log"
    exit 1
  fi
else
  echo "   without Doxygen's pages: doxygen is not installed"
fi
python3 "$root/docs/site/make_site.py" "$work" || exit 1
# Not --quiet: warnings would not count then.
(cd "$work" && NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict) >"$work/mkdocs.log" 2>&1 || { grep -v INFO "$work/mkdocs.log"; exit 1; }
python3 "$root/docs/site/check_site.py" "$work/site" || exit 1
echo "   $work/site/index.html"
