# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# With CMAKE_UNITY_BUILD, as for a release (CMakePresets.json) and the wheel (pyproject.toml), several sources of a room are
# compiled as one, which reads the headers once. So helpers in anonymous namespaces have names of their own within a room; the test python.wheel builds it.
if(NOT CMAKE_UNITY_BUILD)
  return()
endif()

# These include themselves, once for each SIMD target.
set_source_files_properties(
  ops/adasum_simd.cpp ops/compression.cpp ops/copy.cpp ops/reduce_floats.cpp ops/reduce_half_floats.cpp
  ops/reduce_integers.cpp DIRECTORY ops PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Units of the same length, so that none is left for the end, of 24 sources at most, which take g++ less than 1 GB of memory.
foreach(room IN ITEMS base collectives core launcher training)
  get_target_property(sources rueda_${room} SOURCES)
  list(LENGTH sources count)
  math(EXPR units "(${count} + 23) / 24")
  math(EXPR length "(${count} + ${units} - 1) / ${units}")
  set_target_properties(rueda_${room} PROPERTIES UNITY_BUILD_BATCH_SIZE ${length})
endforeach()
