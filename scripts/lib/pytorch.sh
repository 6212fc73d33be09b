# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# Installs the newest PyTorch of PyPI into a virtual environment under build/. The wheel is for CUDA, but it is
# installed without the CUDA packages (2.5 GB). In their place, lib/cuda_stand_ins.py makes small libraries, whose
# functions return "no device". The download has 560 MB and is kept; the installation has 1.5 GB. Needs lib/steps.sh,
# lib/results.sh and a C compiler.

readonly kPyTorch=build/pytorch
# The limit for a call of pip, in seconds. If the network is slower than 600 kB/s, the download takes longer. The script
# then behaves as without a network.
readonly kPyTorchSeconds=900

# Prints what an installation is made from. Each installation contains a copy of this text. If the text has changed
# since then, the installation is out of date.
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

# Downloads all wheels into build/pytorch/wheels, and reuses the wheels of an earlier run. The wheels are downloaded
# into a temporary folder, which is then renamed. So an interrupted download leaves no incomplete wheels.
fetch_pytorch() {
    rm -rf "$kPyTorch/wheels.new" &&
        mkdir -p "$kPyTorch/wheels" "$kPyTorch/wheels.new" &&
        python3 -m venv --clear "$kPyTorch/fetch" &&
        { download_pytorch --no-index || download_pytorch --retries 1; } &&
        rm -rf "$kPyTorch/wheels" &&
        mv "$kPyTorch/wheels.new" "$kPyTorch/wheels"
}

# Installs only from the wheels. The file "installed" is written last, so an interrupted installation is started again.
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

# If PyTorch cannot be downloaded, the tests use an older PyTorch or run without it. If it was downloaded but cannot be
# installed, this counts as a failure.
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
