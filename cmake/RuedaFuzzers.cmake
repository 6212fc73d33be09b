# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# rueda_fuzzer(name SOURCES … USES …) adds a libFuzzer program <build>/fuzzers/<name>, if RUEDA_BUILD_FUZZERS is on. The
# test fuzz.<name> runs the program on its seeds: the files in tests/fuzz/seeds/<name>/ and those that fuzz_seeds
# writes. `scripts/test --long --stage fuzz` searches for more inputs.
if(RUEDA_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "RUEDA_BUILD_FUZZERS needs clang's libFuzzer; the compiler is ${CMAKE_CXX_COMPILER_ID}. "
                        "Use the preset `fuzz`, or -DCMAKE_CXX_COMPILER=clang++.")
  endif()
  add_custom_target(fuzzers)
endif()
if(RUEDA_FUZZ_COUNTERS)
  # Rueda's code is also compiled with coverage counters. These flags do not link libFuzzer's main(), which only the
  # fuzz programs need.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

function(rueda_fuzzer name)
  if(NOT RUEDA_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(FUZZER "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${FUZZER_SOURCES})
  target_link_libraries(${name} PRIVATE ${FUZZER_USES} rueda_flags)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzzers")
  add_dependencies(fuzzers ${name})
  rueda_test(fuzz.${name} COMMAND bash "${PROJECT_SOURCE_DIR}/tests/fuzz/take_seeds.sh" $<TARGET_FILE:${name}>
                                  "${PROJECT_SOURCE_DIR}/tests/fuzz/seeds/${name}" "${PROJECT_BINARY_DIR}/fuzz-seeds/${name}"
                          LABELS unit)
  set_tests_properties(fuzz.${name} PROPERTIES FIXTURES_REQUIRED fuzz_seeds)
endfunction()
