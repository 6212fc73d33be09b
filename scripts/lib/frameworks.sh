# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# Installs Accelerate, Transformers and Lightning into a virtual environment under build/, which also finds the PyTorch
# of build/pytorch. This downloads about 40 MB and needs 330 MB on the disk. Needs lib/steps.sh, lib/results.sh and
# lib/pytorch.sh.

readonly kFrameworks=build/frameworks
readonly kFrameworksTitle="Accelerate, Transformers, Lightning"
# if the download takes longer, the script behaves as without a network
readonly kFrameworksSeconds=300

# Prints what an installation is made from. Each installation contains a copy of this text. If the text has changed
# since then, the installation is out of date.
frameworks_recipe() { cat scripts/frameworks.txt scripts/frameworks-needs.txt "$kPyTorch/installed"; }

are_frameworks_there() {
    [[ -x $kFrameworks/latest/bin/python ]] && frameworks_recipe | cmp --quiet - "$kFrameworks/installed"
}

frameworks_pip() { # arguments of pip install…
    timeout --foreground "$kFrameworksSeconds" "$kFrameworks/latest/bin/python" -m pip --quiet --disable-pip-version-check \
        --no-input --no-cache-dir install --only-binary :all: "$@"
}

# The file "installed" is written last, so an interrupted installation is started again. A .pth file points to the
# installed PyTorch.
install_frameworks() {
    local packages
    mkdir -p "$kFrameworks"
    rm -f "$kFrameworks/installed"
    python3 -m venv --clear "$kFrameworks/latest" &&
        frameworks_pip --retries 1 -r scripts/frameworks-needs.txt &&
        frameworks_pip --retries 1 --no-deps -r scripts/frameworks.txt &&
        packages=$("$kFrameworks/latest/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))') &&
        "$kPyTorch/latest/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))' >"$packages/torch.pth" &&
        "$kFrameworks/latest/bin/python" -c 'import accelerate, lightning, torch, transformers' &&
        frameworks_recipe >"$kFrameworks/installed.new" &&
        mv "$kFrameworks/installed.new" "$kFrameworks/installed"
}

# Without a network, or without the PyTorch in build/pytorch, the frameworks are not tested.
ensure_frameworks() {
    local title=$kFrameworksTitle begin=$SECONDS
    if ! is_pytorch_there; then
        skip "$title" "they need the PyTorch of PyPI, which is not there"
    elif are_frameworks_there; then
        print_step "  $title: in $kFrameworks" 0
    elif [[ $dry_run == yes ]]; then
        step frameworks "$title" install_frameworks
    elif install_frameworks >"$kLogs/frameworks.log" 2>&1 </dev/null; then
        print_step "  $title: installed" $((SECONDS - begin))
    else
        rm -rf "$kFrameworks/latest"
        skip "$title" "pip could not install them ($kLogs/frameworks.log)"
    fi
}

# Used with --no-install.
report_frameworks() {
    if are_frameworks_there; then
        print_step "  $kFrameworksTitle: in $kFrameworks" 0
    else
        skip "$kFrameworksTitle" "they are not in $kFrameworks; scripts/test without --no-install installs them"
    fi
}
