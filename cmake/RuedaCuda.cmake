# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Finds the compilers for device kernels, and compiles kernels to PTX. Neither CUDA's headers nor its libraries are
# needed, except that nvcc itself reads some of CUDA's headers.
#
# RUEDA_NVCC, RUEDA_PTXAS (nvcc's assembler) and RUEDA_KERNEL_CLANG are the paths of these programs. The path of a
# missing program is empty. RUEDA_KERNEL_COMPILER is the compiler for the library's kernels: "nvcc" if there is one,
# otherwise "clang++", or "none" if both are missing. RUEDA_KERNEL_ARCHITECTURE is the
# oldest GPU architecture for which this compiler makes PTX: 70 (Volta) with clang and nvcc 12, and 75 (Turing) with
# nvcc 13. The driver compiles the PTX for every newer GPU.
include_guard(GLOBAL)
option(RUEDA_WITH_NVCC "Compile the device kernels with nvcc where it is found, otherwise with clang" ON)

# The folders in which NVIDIA's headers, compilers and libraries may be: first those of a CUDA Toolkit, then those of
# NVIDIA's Python packages in build/nvidia. On a machine without a toolkit, `scripts/test --full` makes build/nvidia.
file(GLOB packages LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/build/nvidia/lib/python3*/site-packages/nvidia/*")
set(RUEDA_NVIDIA_FOLDERS $ENV{CUDA_PATH} $ENV{CUDA_HOME} /usr/local/cuda ${packages})

# The kernels need C++20, which nvcc has since 12.0.
function(rueda_find_nvcc)
  find_program(RUEDA_NVCC_FOUND nvcc HINTS $ENV{CUDA_PATH} $ENV{CUDA_HOME} PATHS ${RUEDA_NVIDIA_FOLDERS} PATH_SUFFIXES bin)
  mark_as_advanced(RUEDA_NVCC_FOUND)
  set(nvcc "")
  if(RUEDA_NVCC_FOUND)
    execute_process(COMMAND "${RUEDA_NVCC_FOUND}" --version OUTPUT_VARIABLE text ERROR_QUIET)
    if(text MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 12.0)
      set(nvcc "${RUEDA_NVCC_FOUND}")
    endif()
  endif()
  set(RUEDA_NVCC "${nvcc}" PARENT_SCOPE)
  set(ptxas "")
  if(nvcc)
    get_filename_component(folder "${nvcc}" DIRECTORY)
    find_program(RUEDA_PTXAS_FOUND ptxas HINTS "${folder}")
    mark_as_advanced(RUEDA_PTXAS_FOUND)
    if(RUEDA_PTXAS_FOUND)
      set(ptxas "${RUEDA_PTXAS_FOUND}")
    endif()
  endif()
  set(RUEDA_PTXAS "${ptxas}" PARENT_SCOPE)
endfunction()

# Some builds of clang, for example that of macOS, have no code generator for PTX.
function(rueda_find_kernel_clang)
  find_program(RUEDA_KERNEL_CLANG_FOUND NAMES clang++ clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15
                                              clang++-14)
  mark_as_advanced(RUEDA_KERNEL_CLANG_FOUND)
  set(clang "")
  if(RUEDA_KERNEL_CLANG_FOUND)
    execute_process(COMMAND "${RUEDA_KERNEL_CLANG_FOUND}" -print-targets OUTPUT_VARIABLE text ERROR_QUIET)
    if(text MATCHES "nvptx64")
      set(clang "${RUEDA_KERNEL_CLANG_FOUND}")
    endif()
  endif()
  set(RUEDA_KERNEL_CLANG "${clang}" PARENT_SCOPE)
endfunction()

rueda_find_nvcc()
rueda_find_kernel_clang()
set(RUEDA_CLANG_ARCHITECTURE 70)
set(RUEDA_KERNEL_ARCHITECTURE ${RUEDA_CLANG_ARCHITECTURE})
if(RUEDA_NVCC AND RUEDA_WITH_NVCC)
  set(RUEDA_KERNEL_COMPILER nvcc)
  execute_process(COMMAND "${RUEDA_NVCC}" --list-gpu-arch OUTPUT_VARIABLE architectures ERROR_QUIET)
  if(NOT architectures MATCHES "compute_70")
    set(RUEDA_KERNEL_ARCHITECTURE 75)
  endif()
elseif(RUEDA_KERNEL_CLANG)
  set(RUEDA_KERNEL_COMPILER clang++)
else()
  set(RUEDA_KERNEL_COMPILER none)
endif()

# The flags of the compilers. They forbid fused multiply-add: it rounds once, but the CPU rounds twice, so the bits
# would differ. nvcc uses its host compiler only to preprocess the file, so any version of the host compiler will do.
# nvcc 12.9 warns that later versions will not support sm_70; -Wno-deprecated-gpu-targets suppresses this warning.
set(RUEDA_KERNEL_INCLUDES "-I${PROJECT_SOURCE_DIR}" "-I${PROJECT_SOURCE_DIR}/include")
set(RUEDA_NVCC_FLAGS -x cu -std=c++20 -fmad=false --expt-relaxed-constexpr -allow-unsupported-compiler
                     -Wno-deprecated-gpu-targets ${RUEDA_KERNEL_INCLUDES})
set(RUEDA_KERNEL_CLANG_FLAGS -x cuda --cuda-device-only -nocudainc -nocudalib -std=c++20 -O3 -ffp-contract=off
                             -Wno-unknown-cuda-version ${RUEDA_KERNEL_INCLUDES})

# rueda_kernel_image(OUTPUT file.cpp SOURCE file.cu DEPENDS headers…) compiles kernels to PTX, and writes a C++ source
# that defines kernel_image().
function(rueda_kernel_image)
  cmake_parse_arguments(IMAGE "" "OUTPUT;SOURCE" "DEPENDS" ${ARGN})
  set(ptx "${IMAGE_OUTPUT}.ptx")
  set(compile "")
  set(check "")
  if(RUEDA_KERNEL_COMPILER STREQUAL "nvcc")
    set(compile COMMAND "${RUEDA_NVCC}" -ccbin "${CMAKE_CXX_COMPILER}" ${RUEDA_NVCC_FLAGS}
                        -arch=compute_${RUEDA_KERNEL_ARCHITECTURE} -ptx "${IMAGE_SOURCE}" -o "${ptx}")
    if(RUEDA_PTXAS)
      # embed_kernels.cmake lowers the PTX version that the kernels' text declares. Then the assembler checks that the
      # text contains nothing that needs a newer version.
      set(check COMMAND "${RUEDA_PTXAS}" --gpu-name sm_${RUEDA_KERNEL_ARCHITECTURE} "${ptx}" -o "${ptx}.cubin")
    endif()
  elseif(RUEDA_KERNEL_COMPILER STREQUAL "clang++")
    set(compile COMMAND "${RUEDA_KERNEL_CLANG}" ${RUEDA_KERNEL_CLANG_FLAGS}
                        --cuda-gpu-arch=sm_${RUEDA_CLANG_ARCHITECTURE} -S "${IMAGE_SOURCE}" -o "${ptx}")
  else()
    set(compile COMMAND "${CMAKE_COMMAND}" -E rm -f "${ptx}" COMMAND "${CMAKE_COMMAND}" -E touch "${ptx}")
  endif()
  set(script "${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake")
  add_custom_command(
    OUTPUT "${IMAGE_OUTPUT}"
    ${compile}
    COMMAND "${CMAKE_COMMAND}" "-DPTX=${ptx}" "-DOUTPUT=${IMAGE_OUTPUT}" "-DCOMPILER=${RUEDA_KERNEL_COMPILER}" -P
            "${script}"
    ${check}
    DEPENDS "${IMAGE_SOURCE}" ${IMAGE_DEPENDS} "${script}"
    COMMENT "Device kernels by ${RUEDA_KERNEL_COMPILER}"
    VERBATIM)
endfunction()
