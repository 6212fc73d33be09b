# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# The target `docs` builds the reference of the public headers: <build>/docs/html/index.html. A warning of doxygen is an
# error.
find_program(RUEDA_DOXYGEN doxygen)
if(RUEDA_DOXYGEN)
  configure_file("${PROJECT_SOURCE_DIR}/docs/Doxyfile.in" "${PROJECT_BINARY_DIR}/docs/Doxyfile" @ONLY)
  add_custom_target(
    docs
    COMMAND "${RUEDA_DOXYGEN}" "${PROJECT_BINARY_DIR}/docs/Doxyfile"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    COMMENT "API reference: ${PROJECT_BINARY_DIR}/docs/html/index.html"
    VERBATIM)
endif()
