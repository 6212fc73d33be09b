# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# How tests are registered. Labels are the tiers: unit, threads, processes, mpi.
include_guard(GLOBAL)
set(RUEDA_TEST_TIMEOUT 120 CACHE STRING "Seconds after which a test counts as hanging")

# rueda_test(name COMMAND program arguments… LABELS unit|threads|processes|mpi [TIMEOUT seconds])
function(rueda_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT ${RUEDA_TEST_TIMEOUT})
  endif()
  add_test(NAME ${name} COMMAND ${TEST_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT})
endfunction()

# What Open MPI's mpirun needs to run more ranks than cores, and as root in a container; other launchers need nothing.
function(rueda_mpiexec_flags result)
  if(NOT DEFINED RUEDA_MPIEXEC_FLAGS)
    execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
    set(flags "")
    if(version MATCHES "Open MPI|OpenRTE|open-mpi")
      set(flags --allow-run-as-root --oversubscribe --bind-to none)
    endif()
    set(RUEDA_MPIEXEC_FLAGS "${flags}" CACHE INTERNAL "Flags of the MPI launcher in tests")
  endif()
  set(${result} ${RUEDA_MPIEXEC_FLAGS} PARENT_SCOPE)
endfunction()

# rueda_mpi_test(name NP 1 2 4 COMMAND program arguments… [TIMEOUT seconds]): one test name.np<N> for each number of ranks,
# started by the launcher of the MPI that the plugin was built with. Without the plugin, none.
function(rueda_mpi_test name)
  if(NOT TARGET rueda_mpi OR NOT MPIEXEC_EXECUTABLE)
    return()
  endif()
  cmake_parse_arguments(TEST "" "TIMEOUT" "NP;COMMAND" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT ${RUEDA_TEST_TIMEOUT})
  endif()
  rueda_mpiexec_flags(flags)
  foreach(np IN LISTS TEST_NP)
    rueda_test(${name}.np${np}
               COMMAND ${MPIEXEC_EXECUTABLE} ${flags} ${MPIEXEC_NUMPROC_FLAG} ${np} ${TEST_COMMAND}
               LABELS mpi
               TIMEOUT ${TEST_TIMEOUT})
    set_tests_properties(${name}.np${np} PROPERTIES PROCESSORS ${np} ENVIRONMENT
                                                    "RUEDA_MPI_PLUGIN=$<TARGET_FILE:rueda_mpi>")
  endforeach()
endfunction()
