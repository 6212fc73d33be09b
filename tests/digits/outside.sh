#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# outside.sh SOURCE WORK: builds the example as a project of its own against the Rueda that packaging.install has
# installed in WORK/prefix. Then checks that the built program prints its help.
set -euo pipefail
cmake -S "$1/examples/digits" -B "$2/digits" -DCMAKE_PREFIX_PATH="$2/prefix" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON
cmake --build "$2/digits"
"$2/digits/digits" --help | grep -q '^Examples:'
