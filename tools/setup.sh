# SPDX-License-Identifier: Apache-2.0
# Read by demo.sh, test.sh, fuzz.sh and install_packages.sh: says what it does, installs the packages of packages.txt that are missing, and builds in the folder that both share.
root=$(cd "$(dirname "$0")/.." && pwd)
say() { printf '\033[1m== %s\033[0m\n' "$*" | { [ -t 1 ] && cat || sed 's/\x1b\[[0-9]*m//g'; }; }

# package_names [GROUP]: the names in packages.txt: all but those of a group (cross, windows, browser), or those of that group alone; of the group `build` what tools/demo.sh needs.
package_names() {
  case ${1-} in
    "") invert=-v lines='# \(cross\|windows\|browser\):' ;;
    build) invert=-v lines='# \(cross\|windows\|browser\|tests\|Debian packages\|documentation site\):' ;;
    *) invert= lines="# $1:" ;;
  esac
  grep $invert "$lines" "$root/tools/packages.txt" | sed 's/#.*//' | tr -s ' \n' ' '
}

# install_packages [GROUP]: those of them that are missing.
install_packages() {
  wanted=$(package_names "$@")
  missing=
  for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  say "installing$missing"
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# The release build: demo.sh makes a part of it, test.sh goes on with the rest. The kernels are those for the best instruction set of this processor (AMX's are
# a few beside AVX-512's, which test.sh --all and whoever installs build).
build=${QUARRY_BUILD_DIR:-$root/build}
best_isa=$(if grep -qw avx512_vnni /proc/cpuinfo; then echo avx512; elif grep -qw avx2 /proc/cpuinfo; then echo avx2; fi)
processors=$(nproc)
# Where ccache is, meson uses it; the sloppiness lets it keep what is compiled with a precompiled header. Not its depend mode: gcc's list of dependencies leaves out
# what a precompiled header holds, so that a change there would give the objects of before. The namespace leaves those alone that were kept that way.
export CCACHE_NODEPEND=1 CCACHE_NAMESPACE=quarry
unset CCACHE_DEPEND
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros,include_file_mtime,include_file_ctime}

# release_build INSTRUCTION_SETS TESTS: configures it, or what was configured before anew; INSTRUCTION_SETS is empty for all.
release_build() {
  if [ -f "$build/build.ninja" ]; then meson configure "$build" "-Dkernel_isas=$1" "-Dtests=$2" >/dev/null
  else configure "$build" --buildtype=release -Dwerror=true "-Dkernel_isas=$1" "-Dtests=$2"
  fi
}

# minutes SECONDS: what SECONDS of one processor are on those of this machine, as "4 minutes".
minutes() { echo "$((($1 / processors + 59) / 60)) minutes"; }

# ninja_in DIR [targets]: what is built, with ninja's counter: in place on a terminal, now and then elsewhere. Everything goes to DIR.ninja.log.
ninja_in() {
  dir=$1
  shift
  terminal=$([ -t 1 ] && echo yes || echo no)
  { NINJA_STATUS='[%f/%t %es] ' ninja -C "$dir" "$@" 2>&1; echo "ninja ended with $?"; } | tee "$dir.ninja.log" | {
    count=0 last=
    while IFS= read -r line; do
      case $line in "["*) ;; *) continue ;; esac
      last=$line count=$((count + 1))
      if [ $terminal = yes ]; then printf '\r\033[K   %.110s' "$line"; elif [ $((count % 60)) -eq 0 ]; then echo "   $line"; fi
    done
    [ $terminal = no ] || printf '\r\033[K'
    [ -z "$last" ] || echo "   $last"
  }
  [ "$(tail -n 1 "$dir.ninja.log")" = "ninja ended with 0" ] || { grep -A 30 -m 3 -E 'FAILED|error:' "$dir.ninja.log"; return 1; }
}

# configure BUILD_DIR [meson options]: once; a re-run only builds what changed.
configure() {
  dir=$1
  shift
  if [ -f "$dir/build.ninja" ]; then return 0; fi
  mkdir -p "$(dirname "$dir")" || return 1  # the log lies beside it
  meson setup "$dir" "$root" "$@" >"$dir.log" 2>&1 || { cat "$dir.log"; return 1; }
}

# What test.sh and fuzz.sh are made of; they count in passed, failed, skipped and failures.
step() {  # NAME COMMAND...
  name=$1 start=$(date +%s)
  shift
  say "$name"
  if "$@"; then
    passed=$((passed + 1))
    echo "   ok: $name ($(($(date +%s) - start)) s)"
  else
    failed=$((failed + 1)) failures="$failures
   $name"
    echo "   FAILED: $name ($(($(date +%s) - start)) s)"
  fi
}
skip() {  # NAME REASON
  skipped=$((skipped + 1))
  say "$1"
  echo "   skipped: $2"
}
has_opencl() {  # whether there is a device that kernels run on
  "$quarry" doctor 2>/dev/null | grep -A 1 '^  ok   gpu' | grep -q '  usable,'
}
newest_onnx() {  # the newest onnx and onnxruntime packages, in a folder of their own
  venv=$build/venv
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || return 1
  "$venv/bin/python" -c 'import onnx, onnxruntime' 2>/dev/null || "$venv/bin/pip" install -q onnx onnxruntime numpy >"$build/pip.log" 2>&1
}
