# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Finds a second MPI with MPICH's ABI, beside the MPI of find_package(MPI). MPICH, Intel MPI and MVAPICH have this ABI.
include_guard(GLOBAL)
set(RUEDA_MPICH_COMPILER "" CACHE FILEPATH "C compiler wrapper of an MPI with MPICH's ABI; empty: mpicc.mpich where there is one")

# Sets RUEDA_MPI_IS_OPEN_MPI from the headers that find_package(MPI) found.
function(rueda_look_at_mpi)
  include(CheckSymbolExists)
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
  set(CMAKE_REQUIRED_QUIET ON)
  check_symbol_exists(OPEN_MPI mpi.h RUEDA_MPI_IS_OPEN_MPI)
endfunction()

# Creates the target RuedaMpich from the compiler wrapper's flags, and finds the launcher in the wrapper's folder
# (RUEDA_MPICH_LAUNCHER). If there is no MPI with MPICH's ABI, creates no target.
function(rueda_find_mpich)
  set(wrapper "${RUEDA_MPICH_COMPILER}")
  if(NOT wrapper)
    find_program(RUEDA_MPICH_FOUND mpicc.mpich)
    set(wrapper "${RUEDA_MPICH_FOUND}")
  endif()
  if(NOT wrapper)
    return()
  endif()
  execute_process(COMMAND "${wrapper}" -show OUTPUT_VARIABLE command RESULT_VARIABLE failed)
  if(failed)
    message(WARNING "Rueda: ${wrapper} -show failed: no plugin for MPICH")
    return()
  endif()
  separate_arguments(words UNIX_COMMAND "${command}")
  list(POP_FRONT words)
  add_library(RuedaMpich INTERFACE IMPORTED GLOBAL)
  foreach(word IN LISTS words)
    if(word MATCHES "^-I(.+)")
      target_include_directories(RuedaMpich SYSTEM INTERFACE "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-L(.+)")
      target_link_directories(RuedaMpich INTERFACE "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-l(mpi|mpich)$")
      target_link_libraries(RuedaMpich INTERFACE ${word})
    endif()
  endforeach()
  get_filename_component(folder "${wrapper}" DIRECTORY)
  # Debian adds a suffix to the names of each MPI's programs.
  find_program(RUEDA_MPICH_LAUNCHER NAMES mpiexec.mpich mpiexec.hydra mpiexec PATHS "${folder}" NO_DEFAULT_PATH)
endfunction()
