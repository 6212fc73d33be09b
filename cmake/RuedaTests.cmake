# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Functions that register tests. Each test has these labels:
#  - what it needs: unit (one thread), threads, processes, mpi, hosts, packaging;
#  - its folders under tests/, for example "core" and "core/negotiation" (`scripts/test --only core/negotiation`);
#  - how long it takes: short (under 3 s), medium, long (over 20 s);
#  - "full" if only `scripts/test --full` runs it. `scripts/test` runs the other tests, and builds only their programs;
#  - "extended" if only `scripts/test --long --stage extended` runs it. Such a test repeats another test with other
#    numbers of ranks, an older PyTorch, other hosts, another launcher or another compiler, or it explores the largest
#    state spaces. It also has the label "full".
include_guard(GLOBAL)
set(RUEDA_TEST_TIMEOUT 120 CACHE STRING "Seconds after which a test counts as hanging")

# Builds all programs for the tests of `scripts/test`.
add_custom_target(default_tests)

# A test's command or environment may name targets, either as `target` or as $<TARGET_FILE:target>. This function makes
# default_tests depend on these targets, so that they are built before the tests run.
function(rueda_default_test_needs)
  foreach(word IN LISTS ARGN)
    string(REGEX REPLACE ".*\\$<TARGET_FILE:([A-Za-z0-9_]+)>.*" "\\1" word "${word}")
    if(TARGET "${word}")
      get_target_property(imported "${word}" IMPORTED)
      if(NOT imported)
        add_dependencies(default_tests "${word}")
      endif()
    endif()
  endforeach()
endfunction()

# Makes default_tests depend on the targets in the tests' environments. Call this at the end of a folder, because a
# test's environment is set after rueda_test() has added the test.
function(rueda_environments_of_default_tests)
  get_property(tests DIRECTORY PROPERTY RUEDA_DEFAULT_TESTS)
  foreach(test IN LISTS tests)
    get_test_property(${test} ENVIRONMENT environment)
    rueda_default_test_needs(${environment})
  endforeach()
endfunction()

# rueda_test(name COMMAND program arguments… LABELS unit|threads|processes|mpi|hosts [SECONDS seconds] [TIMEOUT seconds]
#            [NEEDS targets…] [FULL|DEFAULT|EXTENDED])
# SECONDS: the test's duration on two free cores, if it is more than two seconds. CTest starts the longest tests first.
# NEEDS: targets that the command uses without naming them.
# FULL: only `scripts/test --full` runs the test. EXTENDED: only the long stage "extended" runs the test. In folders with
# RUEDA_TESTS_ARE_FULL, all tests except those with DEFAULT or EXTENDED are FULL.
function(rueda_test name)
  cmake_parse_arguments(TEST "FULL;DEFAULT;EXTENDED" "SECONDS;TIMEOUT" "COMMAND;LABELS;NEEDS" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT ${RUEDA_TEST_TIMEOUT})
  endif()
  if(RUEDA_SANITIZE)
    math(EXPR TEST_TIMEOUT "${TEST_TIMEOUT} * 3") # a sanitizer slows a program down by a factor of 2 to 20
  endif()
  if(NOT TEST_SECONDS)
    set(TEST_SECONDS 1)
  endif()
  set(duration short)
  if(TEST_SECONDS GREATER 20)
    set(duration long)
  elseif(TEST_SECONDS GREATER 2)
    set(duration medium)
  endif()
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(REGEX MATCH "^[a-z_]+" room "${folder}")  # empty for a test outside of tests/
  set(labels ${room} ${TEST_LABELS} ${duration})
  if(room)
    list(APPEND labels ${folder})
  endif()
  if(TEST_EXTENDED)
    list(APPEND labels full extended)
  elseif(TEST_FULL OR (RUEDA_TESTS_ARE_FULL AND NOT TEST_DEFAULT))
    list(APPEND labels full)
  else()
    rueda_default_test_needs(${TEST_COMMAND} ${TEST_NEEDS})
    get_property(tests DIRECTORY PROPERTY RUEDA_DEFAULT_TESTS)
    if(NOT tests)
      cmake_language(DEFER CALL rueda_environments_of_default_tests)
    endif()
    set_property(DIRECTORY APPEND PROPERTY RUEDA_DEFAULT_TESTS ${name})
  endif()
  list(REMOVE_DUPLICATES labels)
  add_test(NAME ${name} COMMAND ${TEST_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${TEST_TIMEOUT} COST ${TEST_SECONDS})
endfunction()

# rueda_tests_by_file(name TARGET program TAG tag FILES files… [OPTIONS options of rueda_test…])
# Adds a test name.<file> for each source file of a Catch2 program. This test runs those cases of its file that have the
# tag. CTest can therefore run the cases of several files at the same time. Without LABELS in OPTIONS, the tag is the
# label.
function(rueda_tests_by_file name)
  cmake_parse_arguments(BY_FILE "" "TARGET;TAG" "FILES;OPTIONS" ${ARGN})
  set(options ${BY_FILE_OPTIONS})
  if(NOT LABELS IN_LIST options)
    list(APPEND options LABELS ${BY_FILE_TAG})
  endif()
  foreach(file IN LISTS BY_FILE_FILES)
    file(STRINGS ${file} cases REGEX "\\[${BY_FILE_TAG}\\]")
    get_filename_component(stem ${file} NAME_WE)
    if(cases)
      string(REGEX REPLACE "_test$" "" part ${stem})
      rueda_test(${name}.${part} COMMAND ${BY_FILE_TARGET} -w NoTests --filenames-as-tags "[#${stem}][${BY_FILE_TAG}]" ${options})
    endif()
  endforeach()
endfunction()

# Returns the flags that let Open MPI's mpirun start more ranks than cores, and run as root in a container. Other
# launchers need no flags.
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

# Returns the environment of a test that initialises MPI with the given plugin. In builds with AddressSanitizer, this
# environment turns off leak detection, because Open MPI does not free all of its memory. A list of suppressions would
# not help: Open MPI has unloaded the components that allocated this memory before the leaks are reported.
function(rueda_mpi_environment result)
  set(plugin rueda_mpi)
  if(ARGN)
    set(plugin ${ARGN})
  endif()
  set(variables "RUEDA_MPI_PLUGIN=$<TARGET_FILE:${plugin}>")
  if(RUEDA_SANITIZE MATCHES "address")
    list(APPEND variables LSAN_OPTIONS=detect_leaks=0)
  endif()
  set(${result} "${variables}" PARENT_SCOPE)
endfunction()

# rueda_mpi_test(name NP 1 2 4 COMMAND program arguments… [SECONDS seconds] [TIMEOUT seconds] [DEFAULT 2])
# Adds a test name.np<N> for each number of ranks in NP. The launcher of the plugin's MPI starts the ranks. Without the
# plugin, this function adds no test. All tests are FULL, except those for the numbers of ranks in DEFAULT.
function(rueda_mpi_test name)
  if(NOT TARGET rueda_mpi OR NOT MPIEXEC_EXECUTABLE)
    return()
  endif()
  rueda_mpiexec_flags(flags)
  rueda_tests_under(${name} rueda_mpi "${MPIEXEC_EXECUTABLE};${flags};${MPIEXEC_NUMPROC_FLAG}" ${ARGN})
endfunction()

# Like rueda_mpi_test, but the test uses the plugin for MPICH and MPICH's launcher.
function(rueda_mpich_test name)
  if(TARGET rueda_mpich AND RUEDA_MPICH_LAUNCHER)
    rueda_tests_under(${name} rueda_mpich "${RUEDA_MPICH_LAUNCHER};-n" ${ARGN})
  endif()
endfunction()

function(rueda_tests_under name plugin launcher)
  cmake_parse_arguments(TEST "" "SECONDS;TIMEOUT" "NP;COMMAND;DEFAULT" ${ARGN})
  # The launcher does not know CMake's targets, so the target's name is replaced by its program's path.
  list(POP_FRONT TEST_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  rueda_mpi_environment(environment ${plugin})
  foreach(np IN LISTS TEST_NP)
    set(full FULL)
    if(np IN_LIST TEST_DEFAULT)
      set(full "")
    endif()
    rueda_test(${name}.np${np} COMMAND ${launcher} ${np} ${program} ${TEST_COMMAND} LABELS mpi SECONDS ${TEST_SECONDS}
               TIMEOUT ${TEST_TIMEOUT} NEEDS ${plugin} ${full})
    set_tests_properties(${name}.np${np} PROPERTIES PROCESSORS ${np} ENVIRONMENT "${environment}")
  endforeach()
endfunction()
