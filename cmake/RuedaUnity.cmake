# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# A unity build (CMAKE_UNITY_BUILD) compiles several sources of a room (a folder of the source tree) as one source, to
# read the headers only once. Releases, the builds of the tests (CMakePresets.json) and the wheel (pyproject.toml) are
# unity builds, so names in anonymous namespaces must be unique within a room. The presets dev and clang compile each
# file by itself.
if(NOT CMAKE_UNITY_BUILD)
  return()
endif()

# These files are compiled separately, because they include themselves once for each SIMD instruction set.
set_source_files_properties(
  ops/adasum_simd.cpp ops/compression.cpp ops/copy.cpp ops/reduce_floats.cpp ops/reduce_half_floats.cpp
  ops/reduce_integers.cpp DIRECTORY ops PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_source_files_properties(training/optimizers/kernels_simd.cpp DIRECTORY training PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# The plugins contain these files, too. A test links rooms (folders of the source tree) and the parts of plugins. If
# these files were compiled together with other files, such a test would contain their functions twice.
set_source_files_properties(
  base/text.cpp ops/neutral.cpp collectives/membership.cpp collectives/transport.cpp collectives/wire.cpp
  DIRECTORY base ops collectives collectives/cuda collectives/mpi collectives/ucx
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# The two files of training/ that follow need core/. If they were compiled together with other files of training/, a
# program that links only training/ would need core/, too.
set_source_files_properties(training/checkpoints/c_functions.cpp training/metrics/c_metric_files.cpp DIRECTORY training
                            PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# host_share.cpp declares functions of core/ as weak. The declarations must come before any use of these functions. If
# the file were compiled together with other files, one of them could use such a function first.
set_source_files_properties(data/pipeline/host_share.cpp DIRECTORY data PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Each room (folder) is divided into units of equal size: at most 24 sources are compiled together. With more sources,
# g++ needs more than 1 GB of memory.
foreach(room IN ITEMS base collectives core launcher training data)
  get_target_property(sources rueda_${room} SOURCES)
  list(LENGTH sources count)
  math(EXPR units "(${count} + 23) / 24")
  math(EXPR length "(${count} + ${units} - 1) / ${units}")
  set_target_properties(rueda_${room} PROPERTIES UNITY_BUILD_BATCH_SIZE ${length})
endforeach()
