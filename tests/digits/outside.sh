#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# outside.sh SOURCE WORK: builds the examples digits and deepfm as projects of their own against the Rueda that
# packaging.install has installed in WORK/prefix. Then checks that the built programs print their help. They are built
# without optimisation and as unity builds, which takes less time.
set -euo pipefail
for example in digits deepfm; do
    cmake -S "$1/examples/$example" -B "$2/$example" -DCMAKE_PREFIX_PATH="$2/prefix" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_UNITY_BUILD=ON \
        -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON
    cmake --build "$2/$example"
    "$2/$example/$example" --help | grep -q '^Examples:'
done
