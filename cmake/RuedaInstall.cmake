# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# `cmake --install` has two components. A running job needs rueda_runtime; a build needs rueda_development.
if(NOT RUEDA_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(RUEDA_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Rueda")

install(
  TARGETS rueda
  EXPORT RuedaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rueda_runtime NAMELINK_COMPONENT rueda_development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/rueda"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT rueda_development
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.hpp")

# The plugins are installed beside librueda.so, which looks for them in its own folder. The target `quickstart` builds
# neither all plugins nor the program `rueda`. Its build can be installed, too, but a warning names what is missing.
set(RUEDA_OPTIONAL_FILES "$<TARGET_FILE:rueda_program>")
foreach(plugin IN ITEMS rueda_mpi rueda_mpich rueda_ucx rueda_cuda rueda_prometheus)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rueda_runtime OPTIONAL NAMELINK_SKIP)
    list(APPEND RUEDA_OPTIONAL_FILES "$<TARGET_FILE:${plugin}>")
  endif()
endforeach()
install(TARGETS ruedarun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT rueda_runtime)
install(TARGETS rueda_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT rueda_runtime OPTIONAL)
install(
  CODE "set(files \"${RUEDA_OPTIONAL_FILES}\")
  foreach(file IN LISTS files)
    if(NOT EXISTS \"\${file}\")
      message(WARNING \"\${file} was not built, so it is not installed. To install everything, run first: cmake --build ${PROJECT_BINARY_DIR}\")
    endif()
  endforeach()"
  COMPONENT rueda_runtime)

install(
  EXPORT RuedaTargets
  NAMESPACE Rueda::
  DESTINATION ${RUEDA_PACKAGE_DIR}
  COMPONENT rueda_development)
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/RuedaConfig.cmake.in" "${PROJECT_BINARY_DIR}/RuedaConfig.cmake"
  INSTALL_DESTINATION ${RUEDA_PACKAGE_DIR}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/RuedaConfigVersion.cmake" COMPATIBILITY SameMajorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/RuedaConfig.cmake" "${PROJECT_BINARY_DIR}/RuedaConfigVersion.cmake"
  DESTINATION ${RUEDA_PACKAGE_DIR}
  COMPONENT rueda_development)

# rueda.pc computes the prefix from its own path, so that a moved installation still works.
file(RELATIVE_PATH RUEDA_PREFIX_FROM_PC "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" RUEDA_PREFIX_FROM_PC "${RUEDA_PREFIX_FROM_PC}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/rueda.pc.in" "${PROJECT_BINARY_DIR}/rueda.pc" @ONLY)
install(
  FILES "${PROJECT_BINARY_DIR}/rueda.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
  COMPONENT rueda_development)

# A wheel already contains the files in RUEDA_DOCUMENTS as metadata, so they are installed only in other builds.
if(SKBUILD)
  return()
endif()
set(RUEDA_DOCUMENTS LICENSE README.md CHANGELOG.md)
list(TRANSFORM RUEDA_DOCUMENTS PREPEND "${PROJECT_SOURCE_DIR}/")
install(FILES ${RUEDA_DOCUMENTS} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT rueda_runtime)
