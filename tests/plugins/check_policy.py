# SPDX-License-Identifier: Apache-2.0
"""Compares docs/plugin-policy.md with the fixture tables: every row under its rule, every fixture of a rule there, ids alike."""
import re
import sys
from pathlib import Path

folder, policy = Path(sys.argv[1]), Path(sys.argv[2])
fixtures = {}  # name -> (rule, id)
for line in (folder / "zoo_table.inc").read_text().splitlines():
    if match := re.match(r'ZOO\((\w+), \w+, (\d+), "(QR-\w+)"', line):
        fixtures[match[1]] = (int(match[2]), match[3])
for line in (folder / "lie_table.inc").read_text().splitlines():
    if match := re.match(r'LIE\((\w+), "([^"]*)", (\d+), "(QR-\w+)"', line):
        fixtures[match[2]] = (int(match[3]), match[4])
tests = "".join(path.read_text() for path in [folder / "test_zoo.cpp", folder / "test_scripted.c", folder / "meson.build"])

faults, named, rules = [], set(), []
for line in policy.read_text().splitlines():
    match = re.match(r"\| PLG-(\d+) \|(.*)\|$", line)
    if not match:
        continue
    rule = int(match[1])
    rules.append(rule)
    requirement, consequence, check, proofs = (cell.strip() for cell in match[2].split(" | "))
    for proof in proofs.split(","):
        proof = proof.strip()
        if proof.startswith("test "):
            name = proof.removeprefix("test ")
            if name not in tests:
                faults.append(f"PLG-{rule}: there is no test {name}")
        elif proof not in fixtures:
            faults.append(f"PLG-{rule}: there is no fixture {proof}")
        else:
            named.add(proof)
            if fixtures[proof][0] != rule:
                faults.append(f"PLG-{rule}: fixture {proof} says that it proves PLG-{fixtures[proof][0]}")
            if fixtures[proof][1] not in consequence:
                faults.append(f"PLG-{rule}: fixture {proof} gets {fixtures[proof][1]}, which the rule does not name")
if rules != list(range(1, len(rules) + 1)):
    faults.append(f"rules are numbered {rules}")
faults += [f"fixture {name} (PLG-{rule}) stands in no rule" for name, (rule, _) in fixtures.items() if name not in named]
print("\n".join(faults) or f"{len(rules)} rules, {len(fixtures)} fixtures")
sys.exit(bool(faults))
