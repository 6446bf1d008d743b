#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages as a user has them: lintian, then all of them installed by apt into a clean root of this release of Debian, where the
program, Python and a program in C give the digits answer.

check_packages.py FOLDER_OF_DEBS SOURCE_ROOT      libquarry-tokenizer0 may be missing, where there is no cargo: tools/make_deb.sh has said so
Exit status 77: no clean root can be made here; the last line says why.
"""
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys

import consumers
import letters

folder, root = (os.path.abspath(a) for a in sys.argv[1:3])
packages = sorted(glob.glob(f"{folder}/*.deb"))
names = [os.path.basename(path).split("_")[0] for path in packages]
has_tokenizer = "libquarry-tokenizer0" in names
if sorted(set(names) - {"libquarry-tokenizer0"}) != ["libquarry-dev", "libquarry0", "python3-quarry", "quarry-backends", "quarry-tools"] or len(names) != 5 + has_tokenizer:
    sys.exit(f"FAILED: {folder} has {names}")


def run(*command, timeout=900, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **kwargs)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout.strip()


def skip(why):
    judged()
    print(why)
    sys.exit(77)


for path in packages:
    print("  ", os.path.basename(path), f"{os.path.getsize(path) / 1e6:.2f} MB")
lintian = None
if shutil.which("lintian"):  # which works while the root is made
    # initial-upload-closes-no-bugs: is of uploads to Debian. The others are of builds for tests, which hold debug information or come without flags.
    lintian = subprocess.Popen(["lintian", "--allow-root", "--fail-on", "error", "--suppress-tags", "initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog", *packages],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def judged():
    """What lintian says."""
    if not lintian:
        return
    said = lintian.communicate(timeout=900)[0]
    print(*("   lintian: " + line for line in said.splitlines()[:20]), sep="\n")
    if lintian.returncode != 0:
        sys.exit(f"FAILED: lintian\n{said[-5000:]}")


release = platform.freedesktop_os_release()
if release.get("ID") != "debian" or "VERSION_CODENAME" not in release:
    skip(f"the packages are for Debian, and this is {release.get('PRETTY_NAME', 'something else')}")
if os.geteuid() != 0:
    skip("a clean root is made by root alone")
if not shutil.which("mmdebstrap"):
    skip("mmdebstrap is not installed")
clean, suite = f"{folder}/root", release["VERSION_CODENAME"]
subprocess.run(["umount", "-l", f"{clean}/proc"], capture_output=True)
shutil.rmtree(clean, ignore_errors=True)
listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Identifier: Packages"], capture_output=True, text=True).stdout
mirror = next((row.split()[0] for row in listed.splitlines() if row.split()[1:] == [suite, "main"]), "http://deb.debian.org/debian")
# With the compiler of the last step, and nothing of what Quarry needs.
try:
    made = subprocess.run(["mmdebstrap", "--variant=apt", "--dpkgopt=force-unsafe-io", "--include=gcc,libc6-dev,pkg-config", suite, clean, mirror], capture_output=True, text=True, timeout=600)
    why = "" if made.returncode == 0 else (made.stderr.strip() or "?").splitlines()[-1]
except subprocess.TimeoutExpired:
    why = "it was not done after 10 minutes"
if why:
    skip(f"mmdebstrap cannot make a root here: {why}")
for name in ("resolv.conf", "hosts", "apt/apt.conf"):
    if os.path.exists(f"/etc/{name}"):
        shutil.copy(f"/etc/{name}", f"{clean}/etc/{name}")
for path in glob.glob("/etc/apt/apt.conf.d/*prox*"):
    shutil.copy(path, f"{clean}/etc/apt/apt.conf.d/")
judged()
environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8",
               **{k: v for k, v in os.environ.items() if k.endswith("_proxy")}}


def inside(command, **kwargs):
    return run("chroot", clean, "sh", "-c", command, env=environment, **kwargs)


os.makedirs(f"{clean}/packages")
consumers.page_project(root, f"{clean}/checkout/app")
for path in packages:
    shutil.copy(path, f"{clean}/packages")
shutil.copytree(f"{root}/models/digits", f"{clean}/checkout/models/digits")
with open(f"{clean}/checkout/text.py", "w", encoding="utf-8") as file:
    file.write(f"""import quarry
with quarry.Session("decoder.onnx", state="auto") as session, quarry.Tokenizer("tokenizer.json") as tokenizer, quarry.Generator(session, max_new_tokens=8) as generator:
    generator.prompt(tokenizer.encode("{letters.ASKED}"))
    print("".join(generator.texts(tokenizer)))
""")
run("mount", "-t", "proc", "proc", f"{clean}/proc")
try:
    inside("apt-get update -qq && cd /packages && apt-get install -y -qq --no-install-recommends ./*.deb")
    # What README.md and bindings/python/README.md show.
    told = inside("cd /checkout && quarry compile models/digits/digits.onnx -o digits.qrm && quarry run digits.qrm models/digits/images/digit_3.png --softmax --top 3")
    if not re.search(r"0\.9555\s+3\b", told):
        sys.exit(f"FAILED: quarry run prints {told!r}, expected 3 with 0.9555")
    print("   quarry:", " ".join(told.split()[-6:]))
    example = re.search(r"```python\n(import numpy.*?)```", open(f"{root}/bindings/python/README.md", encoding="utf-8").read(), re.S)[1]
    open(f"{clean}/checkout/example.py", "w", encoding="utf-8").write(example)
    told = inside("cd /checkout && python3 example.py")
    if "the first digit is a 9" not in told:
        sys.exit(f"FAILED: the example of Python's README prints {told!r}")
    print("   python3-quarry:", told.splitlines()[-1])
    told = inside("cd /checkout && cc app/main.c $(pkg-config --cflags --libs quarry) -o main && ./main models/digits/digits.onnx models/digits/test_images.npy")
    if consumers.FIRST_DIGIT not in told:
        sys.exit(f"FAILED: main.c of docs/packages.md prints {told!r}")
    print("   libquarry-dev:", told.splitlines()[-1])
    if has_tokenizer:  # texts, from packages alone: a letter is a token of the decoder of tests/capi, whose answer is ONNX Runtime's
        with open(f"{clean}/checkout/decoder.onnx", "wb") as file:
            file.write(letters.decoder(root))
        with open(f"{clean}/checkout/tokenizer.json", "w", encoding="utf-8") as file:
            json.dump(letters.tokenizer(), file)
        told = inside(f"cd /checkout && echo {letters.ASKED} | quarry chat decoder.onnx --tokenizer tokenizer.json --max-tokens 8")
        if told != letters.ANSWER:
            sys.exit(f"FAILED: quarry chat with a text says {told!r}")
        print("   quarry chat, with a text:", told)
        told = inside("cd /checkout && python3 text.py")
        if told != letters.ANSWER:
            sys.exit(f"FAILED: quarry.Generator with a text says {told!r}")
        print("   python3-quarry, with a text:", told)
    else:
        print("   skipped: texts: there is no libquarry-tokenizer0")
    # Nothing is left behind.
    inside("apt-get purge -y -qq " + " ".join(names))
    left = inside("find / -xdev -name '*quarry*' -not -path '/packages/*' -not -path '/checkout/*' -not -path '/proc/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*'")
    if left:
        sys.exit(f"FAILED: purged, the packages leave {left}")
finally:
    subprocess.run(["umount", "-l", f"{clean}/proc"], capture_output=True)
shutil.rmtree(clean)
