# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# A room is a folder of the source tree (docs/design). It is built as a static library `rueda_<name>`, and tests link
# this library directly. A room may use only the libraries that it lists in USES. To include a header of another room,
# use its path from the root of the tree.
function(rueda_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;USES" ${ARGN})
  add_library(rueda_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(rueda_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(rueda_${name} PUBLIC ${ROOM_USES} PRIVATE rueda_flags)
endfunction()
