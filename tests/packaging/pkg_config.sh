#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# pkg_config.sh BUILD WORK LIBDIR: builds and runs an outside program that finds Rueda with pkg-config, without CMake.
set -euo pipefail
command -v pkg-config >/dev/null || { echo "pkg-config is not there"; exit 77; }
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=run_outside.sh
. "$source/run_outside.sh"
export PKG_CONFIG_PATH="$2/prefix/$3/pkgconfig"
[[ $(pkg-config --modversion rueda) == "$RUEDA_VERSION" ]]
read -r -a flags < <(pkg-config --cflags --libs rueda)
"$CXX" -std=c++20 -Wall -Wextra -Werror "$source/outside/outside.cpp" "${flags[@]}" -Wl,-rpath,"$2/prefix/$3" \
    -o "$2/outside_pkg_config"
run_outside "$2/prefix" "$3" "$2/outside_pkg_config"
