# SPDX-License-Identifier: Apache-2.0
"""check_exports.py NM PLUGIN...: each plugin exports qr_plugin_query and nothing else."""
import subprocess
import sys

faults = []
for plugin in sys.argv[2:]:
    listing = subprocess.run([sys.argv[1], "-D", "--defined-only", plugin], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    # The instrumentation of sanitizers may add names of its own.
    names = {name for name in names if not name.startswith(("__asan_", "__odr_asan", "__tsan_", "__ubsan_", "__sancov"))}
    if names != {"qr_plugin_query"}:
        faults.append(f"{plugin}: exports {sorted(names)}, expected qr_plugin_query alone")
print("\n".join(faults) or "ok")
sys.exit(bool(faults))
