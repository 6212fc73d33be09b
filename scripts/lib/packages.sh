# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# Finds missing packages of the distribution and installs them. Needs lib/steps.sh.

# packages_of COLUMN GROUP…: prints the names of the packages in the given groups, each name once. COLUMN is the column
# of packages.txt: 1 Debian, 2 Fedora, 3 Arch.
packages_of() {
    local column=$(($1 + 1))
    shift
    awk -v column="$column" -v groups=" $* " \
        '!/^#/ && NF && index(groups, " " $1 " ") && $column != "-" && !seen[$column]++ { print $column }' \
        scripts/packages.txt
}

# missing_debian NAMES…, missing_fedora and missing_arch print the named packages that are not installed. Each function
# asks the tool of its distribution.
missing_debian() {
    local package
    for package; do
        [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            printf '%s\n' "$package"
    done
}
missing_fedora() {
    local package
    for package; do
        rpm --query --whatprovides "$package" >/dev/null 2>&1 || printf '%s\n' "$package"
    done
}
missing_arch() { pacman --deptest "$@" || true; }

# Sets `as_root` to the command with which this user becomes root. Fails if there is none.
find_root() {
    as_root=()
    ((EUID != 0)) || return 0
    command -v sudo >/dev/null || return 1
    as_root=(sudo)
    # Without a terminal, the user cannot type a password.
    [[ -t 0 ]] || sudo -n true 2>/dev/null || return 1
}

confirm() { # question
    interactive || return 0
    local answer
    read -r -p "$1 [Y/n] " answer
    [[ -z $answer || $answer == [yYjJ]* ]]
}

install_with_apt() {
    local -a apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 --yes)
    "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"
}

# install_by_hand COMMAND NAMES…: tells the user what to install. Called if this script cannot install the packages.
install_by_hand() {
    printf '  %s\n' "$1 ${*:2}" >&2
    die "$kCannotInstall" "then run scripts/${0##*/} again (or with --no-install, to go on with what is there)"
}

# Runs apt-get. A script calls this function at most once. On a terminal the output of apt-get is shown, because sudo
# may ask for a password.
run_apt() {
    local begin=$SECONDS
    print_packages "$@"
    if [[ $dry_run == yes ]]; then
        return 0
    fi
    confirm "Install them with ${as_root[*]:+${as_root[*]} }apt-get?" ||
        die "$kCannotInstall" "nothing was installed; scripts/${0##*/} --no-install goes on with what is there"
    if interactive; then
        install_with_apt "$@" || die "$kFailed" "apt-get failed, see above"
    else
        step packages "packages: $# installed" install_with_apt "$@" || exit "$kFailed"
        return
    fi
    print_step "  packages: $# installed" $((SECONDS - begin))
}

print_packages() {
    printf '  packages to install (%d):\n' $#
    printf '%s ' "$@" | fold -s -w 110 | sed 's/^/    /'
    printf '\n'
}

# ensure_packages GROUP…: installs the missing packages of these groups. If this is impossible, ends the script and says
# what to install by hand.
ensure_packages() {
    local -a wanted missing
    if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
        mapfile -t wanted < <(packages_of 1 "$@")
        mapfile -t missing < <(missing_debian "${wanted[@]}")
        if ((${#missing[@]} == 0)); then
            print_step "  packages: all there" 0
        elif find_root; then
            run_apt "${missing[@]}"
        elif [[ $dry_run == yes ]]; then
            print_packages "${missing[@]}"
        else
            printf '%s packages are missing, and %s is neither root nor able to use sudo here. Ask an administrator for:\n' \
                "${#missing[@]}" "$(id -un)" >&2
            install_by_hand "apt-get install --no-install-recommends" "${missing[@]}"
        fi
    elif command -v dnf >/dev/null && command -v rpm >/dev/null; then
        mapfile -t wanted < <(packages_of 2 "$@")
        mapfile -t missing < <(missing_fedora "${wanted[@]}")
        require_by_hand "dnf install" "${missing[@]}"
    elif command -v pacman >/dev/null; then
        mapfile -t wanted < <(packages_of 3 "$@")
        mapfile -t missing < <(missing_arch "${wanted[@]}")
        require_by_hand "pacman -S --needed" "${missing[@]}"
    else
        printf 'This machine has no apt, dnf or pacman. Rueda needs (names as in Debian 12):\n' >&2
        awk -v groups=" $* " '!/^#/ && NF && index(groups, " " $1 " ") {
            name = $2; $1 = $2 = $3 = $4 = ""; sub(/^ +/, ""); printf "  %-20s %s\n", name, $0 }' scripts/packages.txt >&2
        [[ $dry_run == yes ]] ||
            die "$kCannotInstall" "Install them, then run scripts/${0##*/} --no-install"
    fi
}

require_by_hand() { # command names…
    if (($# == 1)); then
        print_step "  packages: all there" 0
        return
    fi
    printf 'Only apt-get is used by itself. These packages are missing (names as far as we know them):\n' >&2
    if [[ $dry_run == yes ]]; then
        printf '  %s\n' "$*" >&2
    else
        install_by_hand "$@"
    fi
}

# The CMake of a distribution is often too old, and CMake's own message does not say what to do.
check_cmake() {
    [[ $dry_run == no ]] || return 0
    local version
    command -v cmake >/dev/null || die "$kCannotInstall" "cmake is not there; Rueda needs 3.25 or newer"
    version=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
    [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]] ||
        die "$kCannotInstall" "cmake is $version; Rueda needs 3.25 or newer (for example: pip install cmake)"
}
