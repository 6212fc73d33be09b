# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Sets RUEDA_TEST_PYTHON, the interpreter for tests of the Python package, preferably one with NumPy. The interpreter of
# the tests' tools (scripts/python-tools.txt) has all modules. Debian's interpreter has NumPy if its package is
# installed. Without any interpreter, the variable is not set.
include_guard(DIRECTORY)

# rueda_python_has(python modules result) sets `result` to whether the interpreter is new enough and has all modules.
function(rueda_python_has python modules result)
  string(REPLACE ";" "," names "${modules}")
  execute_process(COMMAND ${python} -c "import sys, ${names}; sys.exit(sys.version_info < (3, 10))"
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  set(${result} OFF PARENT_SCOPE)
  if(status STREQUAL "0")
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

foreach(candidate IN ITEMS "${PROJECT_SOURCE_DIR}/build/python/bin/python" python3 /usr/bin/python3)
  rueda_python_has(${candidate} numpy found)
  if(found)
    set(RUEDA_TEST_PYTHON ${candidate})
    break()
  endif()
endforeach()
if(NOT RUEDA_TEST_PYTHON)
  message(STATUS "The Python package is not tested: NumPy not found (on Debian: python3-numpy)")
endif()
