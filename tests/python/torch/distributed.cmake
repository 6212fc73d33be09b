# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Tests of the backend "rueda" of torch.distributed. CMakeLists.txt defines rueda_torch_test(), and then includes this
# file.
rueda_torch_test(distributed_collectives MODULES distributed_collectives NP 2 4 NP_OF_OLDER 2 EXTENDED 2 SECONDS 8)
foreach(module IN ITEMS messages orders profiler training)
  rueda_torch_test(distributed_${module} MODULES distributed_${module} NP 2 4 EXTENDED 2 SECONDS 8)
endforeach()
rueda_torch_test(distributed_start MODULES distributed_start distributed_faults SECONDS 20 TIMEOUT 480)
rueda_torch_test(stacks_of_trainers MODULES stacks_of_trainers SECONDS 20 TIMEOUT 240)

# These tests run over MPI with the first installed PyTorch, also between hosts (this machine under different names).
list(GET rueda_pytorch_interpreters 0 entry)
string(REGEX MATCH "^([^=]*)=(.*)$" _ "${entry}")
set(script bash "${CMAKE_CURRENT_SOURCE_DIR}/distributed_hosts.sh" ${CMAKE_MATCH_2})
rueda_test(python.torch.distributed_hosts COMMAND ${script} LABELS mpi SECONDS 20 TIMEOUT 300)
rueda_test(python.torch.distributed_hosts_all COMMAND ${script} all LABELS mpi SECONDS 90 TIMEOUT 600 EXTENDED)
set_tests_properties(python.torch.distributed_hosts python.torch.distributed_hosts_all
                     PROPERTIES PROCESSORS 4 SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")

# Runs examples/pytorch for a short time.
foreach(entry IN LISTS rueda_pytorch_interpreters)
  string(REGEX MATCH "^([^=]*)=(.*)$" _ "${entry}")
  if(CMAKE_MATCH_1 VERSION_GREATER_EQUAL 2.6) # FSDP2 on CPUs needs PyTorch 2.6
    set(test example.torch.${CMAKE_MATCH_1}.language_model)
    rueda_test(${test} COMMAND ruedarun --no-mpi -np 2 ${CMAKE_MATCH_2} -B
                               "${PROJECT_SOURCE_DIR}/examples/pytorch/language_model.py" --steps 5
               LABELS processes examples TIMEOUT 240)
    set_tests_properties(${test} PROPERTIES PROCESSORS 2 ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python")
  endif()
endforeach()
