# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# cmake -DPTX=file -DOUTPUT=file.cpp -DCOMPILER=name -P embed_kernels.cmake
# Lowers the version in the PTX file, and writes a C++ source with the text.
#
# A driver refuses PTX whose version is newer than the driver. nvcc writes its own version into the PTX: PTX of nvcc
# 13.0 needs a driver of CUDA 13.0. The kernels need nothing newer than PTX 6.4, the version of CUDA 10.1, except for a
# hint of nvcc that this script removes.
cmake_minimum_required(VERSION 3.25)
file(READ "${PTX}" text)
string(REGEX REPLACE "[ \t]*\\.pragma \"used_bytes_mask[^\n]*\n" "" text "${text}")
if(text MATCHES "\n\\.version ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER 6.4)
  string(REGEX REPLACE "\n\\.version [0-9.]+" "\n.version 6.4" text "${text}")
endif()
file(WRITE "${PTX}" "${text}")
file(
  WRITE "${OUTPUT}"
  "// Written by embed_kernels.cmake.\n"
  "#include \"ops/cuda/kernel_image.hpp\"\n\n"
  "namespace rueda::ops::cuda {\n\n"
  "std::string_view kernel_image() { return R\"PTX(${text})PTX\"; }\n"
  "std::string_view kernel_image_compiler() { return \"${COMPILER}\"; }\n\n"
  "}  // namespace rueda::ops::cuda\n")
