#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# install.sh BUILD WORK LIBDIR: installs into one folder and moves it to another one, as packagers and users do.
set -euo pipefail
rm -rf "$2"
mkdir -p "$2"
cmake --install "$1" --prefix "$2/first"
mv "$2/first" "$2/prefix"
cd "$2/prefix"
for file in "$3/librueda.so" "$3/librueda.so.$RUEDA_VERSION" "$3/cmake/Rueda/RuedaConfig.cmake" "$3/pkgconfig/rueda.pc" \
    include/rueda/rueda.h include/rueda/rueda.hpp bin/ruedarun bin/rueda share/bash-completion/completions/ruedarun; do
    [[ -e $file ]] || { echo "$file is not installed"; exit 1; }
done
[[ -n $(find share -name LICENSE) ]] || { echo "LICENSE is not installed"; exit 1; }
# If a file of the package contained the name of the build folder or of the first prefix, the package would work only on
# this machine.
if grep -rIlF -e "$1" -e "$2/first" .; then
    echo "the files above name folders of the build"
    exit 1
fi
