# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# librueda.so: all rooms below the C interface. What it shows is decided twice: RUEDA_API marks a symbol, and the version
# script lets out only rueda_* and namespace rueda, so that no template of fmt or the standard library leaks.
# CMake wants a source for every library; the rooms bring the code.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/librueda.cpp" CONTENT "// All of librueda.so comes from the rooms.\n")
add_library(rueda SHARED "${PROJECT_BINARY_DIR}/librueda.cpp")
add_library(Rueda::rueda ALIAS rueda)
set(RUEDA_SYMBOLS "${PROJECT_SOURCE_DIR}/cmake/rueda.map")
set_target_properties(
  rueda
  PROPERTIES LINKER_LANGUAGE CXX
             VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}
             LINK_DEPENDS "${RUEDA_SYMBOLS}")
# A wheel holds no links, so there the file has the name that programs look for.
if(SKBUILD)
  set_target_properties(rueda PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
endif()
# Whole archives, as nothing inside the library calls its own front doors. An override, since one room also brings the other.
# CMake's own definition also saves the linker's state around it, which the linker of scripts/wheel does not know.
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE "LINKER:--whole-archive" "<LINK_ITEM>" "LINKER:--no-whole-archive")
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE_SUPPORTED TRUE)
set_property(TARGET rueda PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,rueda_core,rueda_training")
target_link_libraries(rueda PRIVATE rueda_core rueda_training ${CMAKE_DL_LIBS})
target_include_directories(rueda PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(rueda INTERFACE cxx_std_20)
target_link_options(rueda PRIVATE "-Wl,--version-script=${RUEDA_SYMBOLS}")
if(NOT RUEDA_SANITIZE)
  # A sanitizer's symbols come from the program, so only plain builds can ask for a library without open ends.
  target_link_options(rueda PRIVATE -Wl,--no-undefined)
endif()
