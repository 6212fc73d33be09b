#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Compiles the device kernels for GPU architectures. Nothing is executed. Warnings are errors. A compiler is "none" if the
# machine has no such compiler.
#
# compile_kernels.sh nvcc NVCC ARCHITECTURE KERNELS.cu FLAGS…   compiles with nvcc for an architecture, for example 90
# compile_kernels.sh ptxas PTXAS KERNELS.ptx ARCHITECTURE…      compiles the library's PTX for architectures, like a driver
# compile_kernels.sh clang CLANG PTXAS KERNELS.cu FLAGS…        compiles to PTX with clang, then with ptxas if at hand
set -euo pipefail
way=$1 compiler=$2
shift 2
[[ $compiler != none ]] || { echo "no compiler for $way here: skipped"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

assemble() { # PTXAS PTX ARCHITECTURE
    "$1" --warning-as-error --gpu-name "sm_$3" "$2" -o "$folder/$3.cubin"
    [[ -s $folder/$3.cubin ]] && echo "ptxas: sm_$3"
}

case $way in
    nvcc)
        architecture=$1
        shift
        known=$("$compiler" --list-gpu-arch)
        if ! grep -qx "compute_$architecture" <<<"$known"; then
            echo "this nvcc does not know sm_$architecture: skipped"
            exit 77
        fi
        "$compiler" -Werror all-warnings -arch="sm_$architecture" -cubin "$@" -o "$folder/kernels.cubin"
        [[ -s $folder/kernels.cubin ]] && echo "nvcc: sm_$architecture"
        ;;
    ptxas)
        image=$1
        shift
        [[ -s $image ]] || { echo "the library was built without kernels: skipped"; exit 77; }
        known=$("$compiler" --help)
        for architecture in "$@"; do
            if [[ $known == *"'sm_$architecture'"* ]]; then
                assemble "$compiler" "$image" "$architecture"
            else
                echo "this ptxas does not know sm_$architecture: left out"
            fi
        done
        ;;
    clang)
        ptxas=$1
        shift
        "$compiler" -Wall -Wextra -Werror -S "$@" -o "$folder/kernels.ptx"
        grep -c '^\.visible \.entry' "$folder/kernels.ptx"
        if grep -nE '^\s*(call|\.local|\.extern)|\bfma\.|\.(ftz|approx)|\b(add|mul)\.f(32|64)' "$folder/kernels.ptx"; then
            echo "the PTX of clang has instructions that it must not have"
            exit 1
        fi
        [[ $ptxas != none ]] || { echo "no ptxas here: the PTX is not assembled"; exit 0; }
        assemble "$ptxas" "$folder/kernels.ptx" 75
        # The ptxas of CUDA 13 has no sm_70.
        known=$("$ptxas" --help)
        if [[ $known == *"'sm_70'"* ]]; then
            assemble "$ptxas" "$folder/kernels.ptx" 70
        fi
        ;;
esac
