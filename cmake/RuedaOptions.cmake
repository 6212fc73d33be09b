# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Options, language level and warnings, in one place.
option(RUEDA_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(RUEDA_BUILD_EXAMPLES "Build the example trainers (need oneDNN and Eigen)" ${PROJECT_IS_TOP_LEVEL})
option(RUEDA_BUILD_BENCHMARKS "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(RUEDA_BUILD_FUZZERS "Build the fuzz targets (clang's libFuzzer)" OFF)
option(RUEDA_INSTALL "Create the install rules" ${PROJECT_IS_TOP_LEVEL})
option(RUEDA_WITH_MPI "Build the MPI plugin where an MPI is found" ON)
option(RUEDA_WARNINGS_AS_ERRORS "Treat warnings as errors (presets of developers and CI)" OFF)
set(RUEDA_SANITIZE "" CACHE STRING "Sanitizers for the whole build: thread, or address,undefined")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(RUEDA_CCACHE ccache)
if(RUEDA_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${RUEDA_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${RUEDA_CCACHE}")
endif()

# Installed programs find librueda.so beside themselves, wherever the prefix is moved to.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_INSTALL_RPATH)
  file(RELATIVE_PATH RUEDA_LIB_FROM_BIN "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/${RUEDA_LIB_FROM_BIN}")
endif()

add_library(rueda_flags INTERFACE)
target_compile_options(rueda_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor)
if(RUEDA_WARNINGS_AS_ERRORS)
  target_compile_options(rueda_flags INTERFACE -Werror)
endif()
if(RUEDA_SANITIZE)
  add_compile_options(-fsanitize=${RUEDA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${RUEDA_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
