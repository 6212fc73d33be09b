# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# A room is a folder of the source tree (docs/design), which is built as a static library rueda_<name>. Tests link this
# library. A room may use only the libraries in its USES. Headers of other rooms are included by their path from the
# root of the tree.
function(rueda_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;USES" ${ARGN})
  add_library(rueda_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(rueda_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(rueda_${name} PUBLIC ${ROOM_USES} PRIVATE rueda_flags)
endfunction()
