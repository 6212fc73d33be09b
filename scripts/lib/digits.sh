# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# Provides the data of examples/digits: the file digits.csv.gz of Debian's package python3-sklearn. Only this file is
# extracted from the package. The package and its dependencies (a hundred megabytes) are not installed. Needs
# lib/steps.sh.

readonly kDigits=build/cache/digits.csv.gz
readonly kDigitsInside='*/sklearn/datasets/data/digits.csv.gz'

# Prints the path of the file in an installed scikit-learn.
installed_digits() {
    local folder
    for folder in /usr/lib/python3*/dist-packages /usr/lib*/python3*/site-packages /usr/local/lib/python3*/*-packages; do
        if [[ -r $folder/sklearn/datasets/data/digits.csv.gz ]]; then
            printf '%s\n' "$folder/sklearn/datasets/data/digits.csv.gz"
            return 0
        fi
    done
    return 1
}

# download_with APT-OPTIONS…: downloads the package into the current folder. apt checks the signature. Does
# not need root.
download_with() { apt-get -o APT::Sandbox::User= "$@" download python3-sklearn; }

# Uses the package lists of the machine if there are any. Otherwise fetches the lists into a folder under build/, which
# does not need root.
download_package() {
    download_with && return
    echo "the machine's package lists do not do; fetching lists of our own"
    mkdir -p lists/partial archives/partial
    local -a own=(-o "Dir::State::lists=$PWD/lists" -o "Dir::Cache=$PWD" -o "Dir::Cache::archives=$PWD/archives")
    apt-get -o APT::Sandbox::User= "${own[@]}" update && download_with "${own[@]}"
}

# Writes the file under another name and then renames it, so that an interrupted run leaves no incomplete file.
fetch_digits() {
    local folder status=0
    folder=$(mktemp -d build/cache/sklearn.XXXXXX) || return
    (cd "$folder" && download_package) && extract_digits "$folder" || status=$?
    rm -rf "$folder"
    return "$status"
}

extract_digits() { # folder of the package
    local file=$1/digits.csv.gz
    dpkg-deb --fsys-tarfile "$1"/python3-sklearn_*.deb |
        tar --extract --to-stdout --wildcards --file=- "$kDigitsInside" >"$file" &&
        gzip --test "$file" && mv "$file" "$kDigits"
}

# Puts the data into the file $kDigits. Fails if the data cannot be obtained in any way.
ensure_digits() {
    local installed
    if [[ -s $kDigits ]]; then
        print_step "  digits: in $kDigits" 0
    elif installed=$(installed_digits); then
        step digits "digits: from $installed" cp "$installed" "$kDigits"
    elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
        step digits "digits: one file out of the distribution's python3-sklearn" fetch_digits
    elif [[ $dry_run == yes ]]; then
        echo "  digits: from an installed scikit-learn"
    else
        echo "  digits.csv.gz is not there. It is part of scikit-learn (sklearn/datasets/data/): install that, or copy" >&2
        echo "  the file to $kDigits, and run this again" >&2
        return 1
    fi
}
