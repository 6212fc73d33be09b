#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Compiles the device kernels for the GPU architectures from sm_75 to sm_120 that the compiler at hand knows. Nothing is
# executed. Warnings are errors.
#
# compile_kernels.sh nvcc NVCC PTXAS KERNELS.cu FLAGS…     with nvcc, completely for each architecture
# compile_kernels.sh ptxas NVCC PTXAS KERNELS.cu FLAGS…    with nvcc to PTX; like a driver, ptxas compiles the PTX for a
#                                                          few architectures
# compile_kernels.sh clang CLANG PTXAS KERNELS.cu FLAGS…   with clang to PTX, and with ptxas where it is at hand
set -euo pipefail
way=$1 compiler=$2 ptxas=$3 source=$4
shift 4
[[ $compiler != none ]] || { echo "no compiler for $way here: skipped"; exit 77; }
[[ $way != ptxas || $ptxas != none ]] || { echo "no ptxas here: skipped"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
architectures=(75 80 86 89 90 100 120)
few=(90 120)  # the build of the library has already assembled its PTX for sm_75

known() { # prints those of the architectures that nvcc knows
    local list
    list=$("$compiler" --list-gpu-arch)
    for architecture in "$@"; do
        if grep -qx "compute_$architecture" <<<"$list"; then
            echo "$architecture"
        else
            echo "sm_$architecture: this nvcc does not know it, skipped" >&2
        fi
    done
}

assemble() { # PTX architecture
    "$ptxas" --warning-as-error --gpu-name "sm_$2" "$1" -o "$folder/$2.cubin"
    [[ -s $folder/$2.cubin ]] && echo "ptxas: sm_$2"
}

case $way in
    nvcc)
        for architecture in $(known "${architectures[@]}"); do
            "$compiler" "$@" -Werror all-warnings -arch="sm_$architecture" -cubin "$source" -o "$folder/kernels.cubin"
            echo "nvcc: sm_$architecture"
        done
        ;;
    ptxas)
        "$compiler" "$@" -Werror all-warnings -arch=compute_75 -ptx "$source" -o "$folder/kernels.ptx"
        for architecture in $(known "${few[@]}"); do
            assemble "$folder/kernels.ptx" "$architecture"
        done
        ;;
    clang)
        "$compiler" "$@" -Wall -Wextra -Werror --cuda-gpu-arch=sm_75 -S "$source" -o "$folder/kernels.ptx"
        grep -c '^\.visible \.entry' "$folder/kernels.ptx"
        if grep -nE '^\s*(call|\.local|\.extern)|\bfma\.|\.(ftz|approx)|\b(add|mul)\.f(32|64)' "$folder/kernels.ptx"; then
            echo "the PTX of clang has instructions that it must not have"
            exit 1
        fi
        [[ $ptxas != none ]] || { echo "no ptxas here: the PTX is not assembled"; exit 0; }
        assemble "$folder/kernels.ptx" 75
        ;;
esac
