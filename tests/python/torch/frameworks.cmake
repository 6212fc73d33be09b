# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Runs the programs of docs/frameworks.md with Accelerate, Transformers and Lightning from build/frameworks
# (scripts/lib/frameworks.sh). Each program checks that all ranks have the same parameters at the end.
set(frameworks_python "${PROJECT_SOURCE_DIR}/build/frameworks/latest/bin/python")
set(are_there NO)
if(EXISTS "${frameworks_python}" AND EXISTS "${PROJECT_SOURCE_DIR}/build/frameworks/installed")
  set(are_there YES)
endif()
set(by_ruedarun ruedarun --no-mpi -np 2 ${frameworks_python} -B)
set(by_ruedarun_mpi ruedarun -np 2 ${frameworks_python} -B)
set(by_torchrun ${frameworks_python} -B -m torch.distributed.run --standalone --nproc-per-node 2)
set(launchers ruedarun torchrun)
set(plugin "")
if(TARGET rueda_mpi)
  rueda_mpi_environment(plugin)
  list(APPEND launchers ruedarun_mpi)
endif()
file(GLOB programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/snippets/frameworks/*.py")
foreach(program IN LISTS programs)
  get_filename_component(name "${program}" NAME_WE)
  if(NOT are_there)
    # ctest reports the return code 77 as "skipped", and prints the line with the reason.
    set(reason "Accelerate, Transformers and Lightning are not in build/frameworks: scripts/test installs them")
    rueda_test(snippet.frameworks.${name} COMMAND sh -c "echo '${reason}'; exit 77" LABELS processes examples TIMEOUT 10)
    set_tests_properties(snippet.frameworks.${name} PROPERTIES SKIP_RETURN_CODE 77)
    continue()
  endif()
  foreach(launcher IN LISTS launchers)
    set(test snippet.frameworks.${name}.${launcher})
    rueda_test(${test} COMMAND ${by_${launcher}} "${program}" LABELS processes examples SECONDS 6 TIMEOUT 240)
    set_tests_properties(
      ${test} PROPERTIES PROCESSORS 2 ENVIRONMENT
                         "PYTHONPATH=${PROJECT_BINARY_DIR}/python;OMP_NUM_THREADS=1;HF_HUB_OFFLINE=1;PYTHONDONTWRITEBYTECODE=1;${plugin}")
  endforeach()
endforeach()
