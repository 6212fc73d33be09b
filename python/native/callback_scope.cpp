// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/callback_scope.hpp"

#include <utility>

#include "python/native/errors.hpp"
#include "rueda/rueda.h"

namespace rueda::python {
namespace {

thread_local bool in_callback = false;

}  // namespace

CallbackScope::CallbackScope() : outer_(std::exchange(in_callback, true)) {}
CallbackScope::~CallbackScope() { in_callback = outer_; }

bool is_in_callback() { return in_callback; }

bool may_wait() {
    if (in_callback) [[unlikely]] {
        raise(RUEDA_INVALID_ARGUMENT,
              "a completion callback called something that waits, but it may only start operations and read results: "
              "wait in another thread, or give the started operation a callback of its own");
        return false;
    }
    return true;
}

}  // namespace rueda::python
