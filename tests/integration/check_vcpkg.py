#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The overlay port of vcpkg (packaging/vcpkg) without vcpkg, which no registry has: its manifest, its options against those of the build, and its steps by cmake with the
functions of vcpkg that it calls written here after vcpkg's manual, over what `meson install` gives of BUILD. A user's project then finds the result and runs.

check_vcpkg.py BUILD      of `meson setup`, on Linux, with the program and ONNX
"""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PORT = f"{ROOT}/packaging/vcpkg/quarry"
# What the port calls of vcpkg, as its manual has it. Options are written down; the build is there already.
FUNCTIONS = r"""
cmake_minimum_required(VERSION 3.19)
set(PORT quarry)
set(CURRENT_PACKAGES_DIR "${WORK}/packages")
set(CURRENT_INSTALLED_DIR "${WORK}/installed")
set(CURRENT_HOST_INSTALLED_DIR "${WORK}/host")
set(CURRENT_BUILDTREES_DIR "${WORK}/trees")
function(vcpkg_check_linkage)
  if(NOT "${ARGN}" STREQUAL "ONLY_DYNAMIC_LIBRARY")
    message(FATAL_ERROR "vcpkg_check_linkage(${ARGN})")
  endif()
endfunction()
function(vcpkg_configure_meson)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS;ADDITIONAL_BINARIES")
  if(arg_UNPARSED_ARGUMENTS OR NOT EXISTS "${arg_SOURCE_PATH}/meson.build")
    message(FATAL_ERROR "vcpkg_configure_meson: ${arg_UNPARSED_ARGUMENTS}; ${arg_SOURCE_PATH}")
  endif()
  file(WRITE "${WORK}/options" "${arg_OPTIONS}")
endfunction()
function(vcpkg_install_meson)
  execute_process(COMMAND meson install -C "${BUILD}" --no-rebuild --quiet --destdir "${WORK}/tree" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME "${WORK}/tree${PREFIX}" "${CURRENT_PACKAGES_DIR}")
  if(NOT LIBDIR STREQUAL "lib")  # vcpkg configures with "lib", Debian's meson with a folder in it
    file(RENAME "${CURRENT_PACKAGES_DIR}/${LIBDIR}" "${CURRENT_PACKAGES_DIR}/libraries")
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib")
    file(RENAME "${CURRENT_PACKAGES_DIR}/libraries" "${CURRENT_PACKAGES_DIR}/lib")
    set(config "${CURRENT_PACKAGES_DIR}/lib/cmake/quarry/quarryConfig.cmake")
    vcpkg_replace_string("${config}" "\"${LIBDIR}\"" "\"lib\"")
    vcpkg_replace_string("${config}" "\${_quarry_here}/../../../.." "\${_quarry_here}/../../..")
  endif()
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_replace_string file from to)
  file(READ "${file}" before)
  string(REPLACE "${from}" "${to}" after "${before}")
  if(after STREQUAL before)
    message(FATAL_ERROR "vcpkg_replace_string: ${file} has no '${from}'")
  endif()
  file(WRITE "${file}" "${after}")
endfunction()
function(vcpkg_copy_tools)
  cmake_parse_arguments(PARSE_ARGV 0 arg "AUTO_CLEAN" "" "TOOL_NAMES")
  foreach(name IN LISTS arg_TOOL_NAMES)
    file(COPY "${CURRENT_PACKAGES_DIR}/bin/${name}" DESTINATION "${CURRENT_PACKAGES_DIR}/tools/${PORT}")
    file(REMOVE "${CURRENT_PACKAGES_DIR}/bin/${name}")
  endforeach()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  foreach(file IN LISTS arg_FILE_LIST)
    file(READ "${file}" text)
    file(APPEND "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" "${text}")
  endforeach()
endfunction()
include("${PORT_FILE}")
"""


def fail(why):
    sys.exit(f"FAILED: {why}")


def check_manifest():
    with open(f"{PORT}/vcpkg.json", encoding="utf-8") as file:
        said = json.load(file)
    with open(f"{ROOT}/include/quarry/version.h", encoding="utf-8") as file:
        version = ".".join(re.findall(r"#define QR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read()))
    if said["name"] != os.path.basename(PORT) or said["version"] != version:
        fail(f"vcpkg.json says {said['name']} {said['version']}, expected {os.path.basename(PORT)} {version}")
    unknown = set(said) - {"name", "version", "description", "license", "supports", "dependencies", "default-features", "features"}
    if unknown or not set(said["default-features"]) <= set(said["features"]):
        fail(f"vcpkg.json has {sorted(unknown)}, or features by default that it has not")
    needs = [said["dependencies"], *(one["dependencies"] for one in said["features"].values())]
    for one in (name for part in needs for name in part):
        name = one if isinstance(one, str) else one["name"]
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            fail(f"vcpkg.json names {name}, expected a name of a port")
    return sorted(said["features"])


def main(build):
    features = check_manifest()
    rows = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", build], check=True, capture_output=True, text=True).stdout)
    options = {one["name"]: one for one in rows}
    for chosen in ([], features):
        with tempfile.TemporaryDirectory() as work:
            for folder in ("installed/include", "trees"):
                os.makedirs(f"{work}/{folder}")
            for name in ("stb_image.h", "stb_image_write.h"):
                os.symlink(f"/usr/include/stb/{name}", f"{work}/installed/include/{name}")
            with open(f"{work}/port.cmake", "w", encoding="utf-8") as file:
                file.write(FUNCTIONS)
            done = subprocess.run(["cmake", f"-DWORK={work}", f"-DBUILD={build}", f"-DPREFIX={options['prefix']['value']}", f"-DLIBDIR={options['libdir']['value']}", f"-DPORT_FILE={PORT}/portfile.cmake", f"-DFEATURES={';'.join(chosen)}",
                                   "-P", f"{work}/port.cmake"], capture_output=True, text=True)
            if done.returncode:
                fail(f"the port with {chosen}: {done.stderr}")
            with open(f"{work}/options", encoding="utf-8") as file:
                given = file.read().split(";")
            for one in given:
                name, value = re.fullmatch(r"-D([a-z_]+)=(.*)", one).groups()
                known = options.get(name)
                if not known or (known["type"] == "combo" and value not in known["choices"]):
                    fail(f"the port gives {one}, expected an option of the build with one of its values")
            print(f"   features {' '.join(chosen) or 'none'}: {' '.join(given)}")
            if chosen:
                check_user(work)


def check_user(work):
    """A project that finds the package where vcpkg has it: two folders below the prefix."""
    place = f"{work}/packages"
    for name in ("share/quarry/quarryConfig.cmake", "share/quarry/quarryConfigVersion.cmake", "share/quarry/usage", "share/quarry/copyright", "tools/quarry/quarry", "include/quarry/quarry.h",
                 "lib/pkgconfig/quarry.pc", "lib/quarry/backends/quarry-backend-cpu.so"):
        if not os.path.exists(f"{place}/{name}"):
            fail(f"the package has no {name}")
    if os.path.exists(f"{place}/lib/cmake"):
        fail("the package has lib/cmake, expected its files in share")
    os.makedirs(f"{work}/user")
    with open(f"{work}/user/CMakeLists.txt", "w", encoding="utf-8") as file:
        file.write("""cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C)
find_package(quarry CONFIG REQUIRED COMPONENTS program backend-cpu prepare)
add_executable(main ${EXAMPLE})
target_link_libraries(main PRIVATE quarry::quarry)
get_target_property(program quarry::program IMPORTED_LOCATION)
file(WRITE ${CMAKE_BINARY_DIR}/program "${program}")
""")
    for words in (["cmake", "-S", f"{work}/user", "-B", f"{work}/out", f"-Dquarry_DIR={place}/share/quarry", f"-DEXAMPLE={ROOT}/bindings/c/hello.c"], ["cmake", "--build", f"{work}/out"]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            fail(f"a user's project: {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    with open(f"{work}/out/program", encoding="utf-8") as file:
        if file.read() != f"{place}/tools/quarry/quarry":
            fail("quarry::program is not in tools/quarry")
    run = subprocess.run([f"{work}/out/main", f"{ROOT}/models/digits/digits.onnx"], capture_output=True, text=True)
    print("   a user's project, run: " + (run.stdout.strip().splitlines() or [run.stderr])[-1])
    if run.returncode:
        fail(f"a user's program ended with {run.returncode}: {run.stderr}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]))
