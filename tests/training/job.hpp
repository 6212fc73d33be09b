// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "rueda/rueda.hpp"

namespace rueda::training::test {

/// A job of this process alone, as long as the object lives.
struct Job {
    Job() { init(); }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    ~Job() { rueda_shutdown(); }
};

}  // namespace rueda::training::test
