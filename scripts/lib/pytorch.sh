# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# The newest PyTorch of PyPI in a virtual environment under build/. Its wheel is for CUDA, and is installed without the CUDA
# packages (2.5 GB), in whose place come libraries that say "no device". 560 MB are fetched, and kept; 1.5 GB installed.
# Needs lib/steps.sh, lib/results.sh and a C compiler.

readonly kPyTorch=build/pytorch
# A network that is slower than 600 kB/s is as good as none.
readonly kPyTorchSeconds=900

# What an installation depends on; beside it lies what it was made from.
pytorch_recipe() { cat scripts/pytorch.txt scripts/pytorch-needs.txt scripts/lib/cuda_stand_ins.py && python3 --version; }

is_pytorch_there() {
    [[ -x $kPyTorch/latest/bin/python ]] && pytorch_recipe | cmp --quiet - "$kPyTorch/installed"
}

pytorch_pip() { # environment arguments…
    timeout --foreground "$kPyTorchSeconds" "$kPyTorch/$1/bin/python" -m pip --quiet --disable-pip-version-check \
        --no-cache-dir --no-input "${@:2}"
}

download_pytorch() { # pip's arguments…
    local wheels=(download --only-binary :all: --find-links "$kPyTorch/wheels" --dest "$kPyTorch/wheels.new" "$@")
    pytorch_pip fetch "${wheels[@]}" -r scripts/pytorch-needs.txt &&
        pytorch_pip fetch "${wheels[@]}" --no-deps -r scripts/pytorch.txt
}

# All wheels, into build/pytorch/wheels: where those of an earlier time do, from there. They come beside it and are renamed
# together, so that an interrupted download leaves nothing that is half there.
fetch_pytorch() {
    rm -rf "$kPyTorch/wheels.new" &&
        mkdir -p "$kPyTorch/wheels" "$kPyTorch/wheels.new" &&
        python3 -m venv --clear "$kPyTorch/fetch" &&
        { download_pytorch --no-index || download_pytorch --retries 1; } &&
        rm -rf "$kPyTorch/wheels" &&
        mv "$kPyTorch/wheels.new" "$kPyTorch/wheels"
}

# Out of the wheels alone. The marker is the last thing, so what was interrupted is begun again.
install_pytorch() {
    local from_wheels=(install --no-index --find-links "$kPyTorch/wheels") packages
    rm -rf "$kPyTorch/installed" "$kPyTorch/latest" &&
        python3 -m venv "$kPyTorch/latest" &&
        pytorch_pip latest "${from_wheels[@]}" -r scripts/pytorch-needs.txt &&
        pytorch_pip latest "${from_wheels[@]}" --no-deps -r scripts/pytorch.txt &&
        packages=$("$kPyTorch/latest/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))') &&
        python3 scripts/lib/cuda_stand_ins.py "$packages" &&
        "$kPyTorch/latest/bin/python" -c 'import torch; assert not torch.cuda.is_available()' &&
        pytorch_recipe >"$kPyTorch/installed.new" &&
        mv "$kPyTorch/installed.new" "$kPyTorch/installed"
}

# Without a network there is none, or an older one stays, and the tests go with what is there. What has been fetched has to
# work.
ensure_pytorch() {
    local title="PyTorch: the newest of PyPI, without its CUDA packages" begin=$SECONDS
    if is_pytorch_there; then
        print_step "  PyTorch: in $kPyTorch" 0
    elif [[ $dry_run == yes ]]; then
        step pytorch "$title" install_pytorch
    elif fetch_pytorch >"$kLogs/pytorch-fetch.log" 2>&1 </dev/null; then
        print_step "  PyTorch: fetched" $((SECONDS - begin))
        check pytorch "$title" install_pytorch
    else
        skip "PyTorch of PyPI" "pip could not get it ($kLogs/pytorch-fetch.log)"
    fi
}
