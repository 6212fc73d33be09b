# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# The programs of docs/frameworks.md, with Accelerate, Transformers and Lightning in build/frameworks (scripts/lib/frameworks.sh).
# Each asserts that all ranks have the same parameters in the end.
set(frameworks_python "${PROJECT_SOURCE_DIR}/build/frameworks/latest/bin/python")
if(NOT EXISTS "${frameworks_python}" OR NOT EXISTS "${PROJECT_SOURCE_DIR}/build/frameworks/installed")
  message(STATUS "Accelerate, Transformers and Lightning are not tested: scripts/test installs them in build/frameworks")
  return()
endif()
set(by_ruedarun ruedarun --no-mpi -np 2 ${frameworks_python} -B)
set(by_torchrun ${frameworks_python} -B -m torch.distributed.run --standalone --nproc-per-node 2)
file(GLOB programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/snippets/frameworks/*.py")
foreach(program IN LISTS programs)
  get_filename_component(name "${program}" NAME_WE)
  foreach(launcher ruedarun torchrun)
    set(test snippet.frameworks.${name}.${launcher})
    rueda_test(${test} COMMAND ${by_${launcher}} "${program}" LABELS processes examples TIMEOUT 240)
    set_tests_properties(
      ${test} PROPERTIES PROCESSORS 2 ENVIRONMENT
                         "PYTHONPATH=${PROJECT_BINARY_DIR}/python;OMP_NUM_THREADS=1;HF_HUB_OFFLINE=1;PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endforeach()
