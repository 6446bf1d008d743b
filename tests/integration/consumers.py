# SPDX-License-Identifier: Apache-2.0
"""Projects of consumer/, built outside the tree and run: what check_installed.py and check_static.py do beside pkg-config."""
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST_DIGIT = "the first digit is a 9"
CLEAN = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "PKG_CONFIG_SYSROOT_DIR")}


def run(*command, fails=False, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, env={**CLEAN, **kwargs.pop("env", {})}, **kwargs)
    if (done.returncode != 0) != fails:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return (done.stderr if fails else done.stdout).strip()


def page_project(root, folder, *names):
    """A project as docs/packages.md has it: main.c, and CMakeLists.txt or meson.build."""
    with open(f"{root}/docs/packages.md", encoding="utf-8") as file:
        page = file.read()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name in ("main.c", *names):
        language = {"main.c": "c", "CMakeLists.txt": "cmake", "meson.build": "meson"}[name]
        found = re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)
        if len(found) != 1:
            sys.exit(f"FAILED: docs/packages.md has {len(found)} blocks of {language}, expected one")
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(found[0])


def reads_a_digit(program, model, root, **environment):
    printed = run(program, model, f"{root}/models/digits/test_images.npy", env=environment)
    if printed != FIRST_DIGIT:
        sys.exit(f"FAILED: {program} printed {printed!r}, expected {FIRST_DIGIT!r}")


def check_cmake(tree, build, root, components, container=None):
    """find_package(quarry) of the tree below `tree`, by its prefix and nothing else; False where there is no cmake."""
    if not shutil.which("cmake"):
        print("   find_package: cmake is not installed")
        return False
    found = glob.glob(f"{tree}/**/cmake/quarry/quarryConfig.cmake", recursive=True)
    if len(found) != 1:
        sys.exit(f"FAILED: found {found} below {tree}, expected one quarryConfig.cmake")
    digits = f"{root}/models/digits"
    asked = [f"-DCMAKE_PREFIX_PATH={os.path.dirname(found[0])}", f"-DQUARRY_EXAMPLES={root}/bindings", "-S", f"{HERE}/consumer/cmake"]
    shutil.rmtree(build, ignore_errors=True)
    run("cmake", "-B", build, "-DCMAKE_BUILD_TYPE=Release", f"-DQUARRY_COMPONENTS={';'.join(components)}", *asked)
    run("cmake", "--build", build)
    # docs/packages.md, as it stands there.
    page_project(root, f"{build}-page", "CMakeLists.txt")
    run("cmake", "-B", f"{build}-page/out", asked[0], "-S", f"{build}-page")
    run("cmake", "--build", f"{build}-page/out")
    reads_a_digit(f"{build}-page/out/main", f"{digits}/digits.onnx", root)
    compiled = f"{build}/digits.qrm"
    container = container or compiled
    print("   find_package:", run(f"{build}/hello", f"{digits}/digits.onnx").splitlines()[-1])
    print("  ", run(f"{build}/digits", digits, f"{digits}/digits.onnx", container).splitlines()[-1])
    if "quantize" in components:
        print("  ", run(f"{build}/quantize", digits, f"{build}/digits.qdq.onnx"))
        reads_a_digit(f"{build}-page/out/main", f"{build}/digits.qdq.onnx", root)
    if "generate" in components:
        print("  ", run(f"{build}/generate", f"{digits}/digits.onnx"))
    if "program" in components and not os.path.exists(compiled):
        sys.exit("FAILED: quarry::program has compiled nothing")
    # A C program in a project that knows no C++, and what is refused in words.
    shutil.rmtree(f"{build}-c", ignore_errors=True)
    run("cmake", "-B", f"{build}-c", "-DWITH_CXX=OFF", *asked)
    run("cmake", "--build", f"{build}-c", "--target", "hello")
    run(f"{build}-c/hello", f"{digits}/digits.onnx")
    for wanted, said in (("backend-none", "no component 'backend-none'"),):
        message = run("cmake", "-B", f"{build}-refused", f"-DQUARRY_COMPONENTS={wanted}", *asked, fails=True)
        if said not in " ".join(message.split()):
            sys.exit(f"FAILED: find_package(quarry COMPONENTS {wanted}) says {message!r}, expected '{said}'")
    # Versions: 0.1 takes 0.1 alone, 1.0 would take every 1.N that is not older.
    version = f"{os.path.dirname(found[0])}/quarryConfigVersion.cmake"
    text = open(version, encoding="utf-8").read()
    own = text.split('set(PACKAGE_VERSION "')[1].split('"')[0]
    series = own.rsplit(".", 1)[0]
    for has, want, fits in ((own, own, True), (own, series, True), (own, "0.0", False), (own, f"{series}.999", False), (own, "1.0", False), (own, "1", False),
                            ("1.4.2", "1.2", True), ("1.4.2", "1.5", False), ("1.4.2", "2.0", False), ("0.1.0", "0.1...<0.3", True), ("0.1.0", "0.2...1.0", False)):
        if version_fits(f"{build}-version.cmake", text.replace(own, has), want) != fits:
            sys.exit(f"FAILED: quarryConfigVersion.cmake of {has}, asked for {want}: expected {'a fit' if fits else 'no fit'}")
    return True


def version_fits(script, text, want):
    """Whether cmake would take a package with this version file for find_package(quarry WANT)."""
    least, _, most = want.partition("...")
    parts = (least.split(".") + ["0"])[:2]
    lines = [f'set(PACKAGE_FIND_VERSION "{least}")', f"set(PACKAGE_FIND_VERSION_MAJOR {parts[0]})", f"set(PACKAGE_FIND_VERSION_MINOR {parts[1]})"]
    if most:
        lines += ["set(PACKAGE_FIND_VERSION_RANGE TRUE)", f'set(PACKAGE_FIND_VERSION_MIN "{least}")', f'set(PACKAGE_FIND_VERSION_MAX "{most.lstrip("<")}")',
                  f"set(PACKAGE_FIND_VERSION_RANGE_MAX {'EXCLUDE' if most.startswith('<') else 'INCLUDE'})"]
    with open(script, "w", encoding="utf-8") as out:
        out.write("\n".join([*lines, text, 'message("fits: ${PACKAGE_VERSION_COMPATIBLE}")\n']))
    return "fits: TRUE" in subprocess.run(["cmake", "-P", script], capture_output=True, text=True, env=CLEAN, check=True).stderr
