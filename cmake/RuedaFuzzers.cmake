# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# rueda_fuzzer(name SOURCES … USES …) adds a libFuzzer program <build>/fuzzers/<name>, if RUEDA_BUILD_FUZZERS is on. It
# also adds the test fuzz.<name>, which runs the program on its seeds: the files of tests/fuzz/seeds/<name>/, if there
# are any, and the files that fuzz_seeds writes. `scripts/test --long --stage fuzz` uses all these programs to search
# for more inputs.
if(RUEDA_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "RUEDA_BUILD_FUZZERS needs clang's libFuzzer; the compiler is ${CMAKE_CXX_COMPILER_ID}. "
                        "Use the preset `fuzz`, or -DCMAKE_CXX_COMPILER=clang++.")
  endif()
  add_custom_target(fuzzers)
endif()
if(RUEDA_FUZZ_COUNTERS)
  # The rooms are compiled with coverage counters too. Only the fuzz programs get libFuzzer's main().
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
