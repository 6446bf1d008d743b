# SPDX-License-Identifier: Apache-2.0
# An overlay port of this tree: vcpkg install quarry --overlay-ports=packaging/vcpkg (docs/packages.md).
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)  # its backends are plugins
set(VCPKG_BUILD_TYPE release)  # a program of any kind links it: the interface is C
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(options -Dtests=false)
foreach(pair IN ITEMS "gpu;gpu;enabled;disabled" "program;program;enabled;disabled" "onnx;prepare;true;false")
  list(GET pair 0 feature)
  list(GET pair 1 option)
  list(GET pair 2 with)
  list(GET pair 3 without)
  if(feature IN_LIST FEATURES)
    list(APPEND options "-D${option}=${with}")
  else()
    list(APPEND options "-D${option}=${without}")
  endif()
endforeach()
# Its headers are not in a folder of that name there.
set(stb "${CURRENT_BUILDTREES_DIR}/headers/stb")
if("program" IN_LIST FEATURES)
  file(MAKE_DIRECTORY "${stb}")
  file(GLOB headers "${CURRENT_INSTALLED_DIR}/include/stb_*.h")
  file(COPY ${headers} DESTINATION "${stb}")
  list(APPEND options "-Dcpp_args=-I${CURRENT_BUILDTREES_DIR}/headers")
endif()
vcpkg_configure_meson(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${options}
  ADDITIONAL_BINARIES "flatc = ['${CURRENT_HOST_INSTALLED_DIR}/tools/flatbuffers/flatc${VCPKG_HOST_EXECUTABLE_SUFFIX}']")
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()

# Where vcpkg has such files: two folders below the prefix, and programs in tools.
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share/${PORT}")
file(GLOB configs "${CURRENT_PACKAGES_DIR}/lib/cmake/quarry/*.cmake")
file(COPY ${configs} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake")
set(config "${CURRENT_PACKAGES_DIR}/share/${PORT}/quarryConfig.cmake")
vcpkg_replace_string("${config}" "\${_quarry_here}/../../.." "\${_quarry_here}/../..")
if("program" IN_LIST FEATURES)
  vcpkg_replace_string("${config}" "get_filename_component(_quarry_bin \"bin\"" "get_filename_component(_quarry_bin \"tools/${PORT}\"")
  vcpkg_copy_tools(TOOL_NAMES quarry AUTO_CLEAN)
endif()
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
