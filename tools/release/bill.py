#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a release is made of, as SPDX 2.3: its files with their sums, and the works of others that NOTICE names.

bill.py SOURCE VERSION OUT      in the folder of the release's files
"""
import datetime
import glob
import hashlib
import json
import os
import re
import subprocess
import sys

# Which package of Debian a work of NOTICE comes from, for its version.
DEBIAN = {"FlatBuffers": "libflatbuffers-dev", "xxHash": "libxxhash-dev", "Protocol Buffers": "libprotobuf-dev", "ONNX": "libonnx-dev", "CLI11": "libcli11-dev",
          "JSON for Modern C++ (nlohmann-json)": "nlohmann-json3-dev", "stb_image": "libstb-dev"}
LICENSES = {"MIT (Expat)": "MIT", "public domain or MIT": "MIT OR Unlicense"}
# Crates, whose versions Cargo.lock has: they are in a release that has this package, which was made where there was a cargo.
CRATES, WITH_CRATES = "Part of libquarry-tokenizer", "libquarry-tokenizer0_*.deb"
# What a section of NOTICE says of its works; of the others nothing is in a release.
RELATIONS = {"Part of libquarry,": "CONTAINS", CRATES: "CONTAINS", "Part of the program": "CONTAINS", "Linked by": "DYNAMIC_LINK"}


def works(notice):
    """(name, license, holder, relation, is it a crate) of each work that is in a release."""
    found, relation, name, is_crate = [], None, None, False
    for line in notice.splitlines():
        if line and not line.startswith(" "):
            relation, is_crate = next((what for begin, what in RELATIONS.items() if line.startswith(begin)), None), line.startswith(CRATES)
            if is_crate and not glob.glob(WITH_CRATES):
                relation = None
            continue
        cells = re.split(r"\s{2,}", line.strip())
        if relation and len(cells) == 1 and cells[0]:
            name = cells[0]  # a long name stands alone, and the rest on the next line
        elif relation and len(cells) >= (2 if name else 3):
            if name is None:
                name, *cells = cells
            found.append((name, LICENSES.get(cells[0], cells[0].replace(" or ", " OR ")), cells[1], relation, is_crate))
            name = None
    return found


def debian_version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def crate_version(source, name):
    with open(os.path.join(source, "bindings", "tokenizer", "Cargo.lock"), encoding="utf-8") as file:
        return re.search(rf'^name = "{re.escape(name)}"\nversion = "(.*)"', file.read(), re.M)[1]


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-")


def sum_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def main():
    source, version, out = sys.argv[1:]
    with open(os.path.join(source, "NOTICE"), encoding="utf-8") as file:
        inside = works(file.read())
    unknown = [name for name, *_, is_crate in inside if not is_crate and name not in DEBIAN]
    if unknown or not inside:
        sys.exit(f"FAILED: NOTICE: found {unknown or 'no works'}, expected those of DEBIAN in tools/release/bill.py")
    commit = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    own = {"SPDXID": identifier("quarry"), "name": "quarry", "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "Apache-2.0",
           "licenseDeclared": "Apache-2.0", "copyrightText": "2026 The Quarry Authors", "sourceInfo": f"commit {commit}", "supplier": "Organization: The Quarry Authors"}
    packages, relations = [own], [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]}]
    for name, license_, holder, relation, is_crate in inside:
        version_of, supplier = (crate_version(source, name), "Organization: crates.io") if is_crate else (debian_version(DEBIAN[name]), f"Organization: Debian ({DEBIAN[name]})")
        work = {"SPDXID": identifier(name), "name": name, "versionInfo": version_of, "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": license_,
                "licenseDeclared": license_, "copyrightText": holder, "supplier": supplier}
        packages.append({key: value for key, value in work.items() if value != ""})
        relations.append({"spdxElementId": own["SPDXID"], "relationshipType": relation, "relatedSpdxElement": work["SPDXID"]})
    files, sums = [], hashlib.sha256()
    for path in sorted(name for name in os.listdir(".") if name != out):
        digest = sum_of(path)
        sums.update(f"{path} {digest}\n".encode())
        files.append({"SPDXID": identifier("file-" + path), "fileName": f"./{path}", "checksums": [{"algorithm": "SHA256", "checksumValue": digest}], "licenseConcluded": "Apache-2.0", "copyrightText": "NOASSERTION"})
        relations.append({"spdxElementId": own["SPDXID"], "relationshipType": "CONTAINS", "relatedSpdxElement": files[-1]["SPDXID"]})
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    bill = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"quarry-{version}", "documentNamespace": f"urn:quarry:{version}:{sums.hexdigest()}",
            "creationInfo": {"created": created, "creators": ["Tool: tools/release.sh", "Organization: The Quarry Authors"]}, "packages": packages, "files": files, "relationships": relations}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(bill, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
