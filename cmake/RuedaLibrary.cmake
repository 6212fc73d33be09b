# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# librueda.so contains all rooms (folders of the source tree) below the C interface. It exports a symbol only if
# RUEDA_API marks it and the version script lists it. The version script lists rueda_* and namespace rueda, so that
# templates of fmt and of the standard library are not exported. All code comes from the rooms, but CMake requires a
# source file for every library. The file librueda.cpp is therefore empty except for a comment.
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
# Programs look for librueda.so.<major version>, which usually is a symbolic link to librueda.so.<version>. A wheel
# cannot contain symbolic links, so in a wheel the library's file itself has the first of these names.
if(SKBUILD)
  set_target_properties(rueda PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
endif()
# No code inside the library calls the public functions, so the linker would leave them out. Therefore the archives are
# linked whole. The property LINK_LIBRARY_OVERRIDE does this even for an archive that is linked only because another
# archive uses it. CMake's own definition of WHOLE_ARCHIVE also saves and restores the linker's state. The linker of
# scripts/wheel cannot do that, so WHOLE_ARCHIVE is defined here.
# rueda_data_c_interface uses rueda_data, so it must come first in target_link_libraries(). In the other order, CMake would
# name rueda_data twice, and the linker would find each of its functions twice.
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE "LINKER:--whole-archive" "<LINK_ITEM>" "LINKER:--no-whole-archive")
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE_SUPPORTED TRUE)
set_property(TARGET rueda PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,rueda_core,rueda_training,rueda_data,rueda_data_c_interface")
target_link_libraries(rueda PRIVATE rueda_core rueda_training rueda_data_c_interface rueda_data ${CMAKE_DL_LIBS})
target_include_directories(rueda PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(rueda INTERFACE cxx_std_20)
target_link_options(rueda PRIVATE "-Wl,--version-script=${RUEDA_SYMBOLS}")
if(NOT RUEDA_SANITIZE)
  # In a build with sanitizers, the library uses symbols that only the program has. So undefined symbols are forbidden
  # only in other builds.
  target_link_options(rueda PRIVATE -Wl,--no-undefined)
endif()
