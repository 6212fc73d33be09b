# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# shellcheck disable=SC2154  # scripts/test and lib/results.sh set dry_run and kLogs
# Installs NVIDIA's Python packages with the compiler, the headers and NCCL, if the machine has no CUDA Toolkit. The
# packages go into a virtual environment under build/, where CMake finds them (cmake/RuedaCuda.cmake). Needs
# lib/steps.sh and lib/results.sh.

readonly kNvidia=build/nvidia

has_cuda_toolkit() {
    command -v nvcc >/dev/null || [[ -x ${CUDA_PATH:-}/bin/nvcc || -x ${CUDA_HOME:-}/bin/nvcc || -x /usr/local/cuda/bin/nvcc ]]
}

# The file "installed" is written last, so an interrupted installation is started again.
install_nvidia() {
    rm -rf "$kNvidia" && python3 -m venv "$kNvidia" &&
        timeout --foreground 900 "$kNvidia/bin/python" -m pip --quiet --disable-pip-version-check --no-input install \
            --retries 1 --only-binary :all: -r scripts/nvidia.txt &&
        cp scripts/nvidia.txt "$kNvidia/installed"
}

# Without a network, the tests that need nvcc or NVIDIA's headers are skipped.
ensure_nvidia() {
    local begin=$SECONDS
    if has_cuda_toolkit; then
        print_step "  CUDA Toolkit: on this machine" 0
    elif cmp --quiet scripts/nvidia.txt "$kNvidia/installed"; then
        print_step "  CUDA Toolkit: in $kNvidia" 0
    elif [[ $dry_run == yes ]]; then
        step nvidia "NVIDIA's compiler and headers, of PyPI" install_nvidia
    elif install_nvidia >"$kLogs/nvidia.log" 2>&1 </dev/null; then
        print_step "  CUDA Toolkit: fetched into $kNvidia" $((SECONDS - begin))
    else
        skip "CUDA Toolkit of PyPI" "pip could not get it ($kLogs/nvidia.log)"
    fi
}
