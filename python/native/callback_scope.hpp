// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A thread must not wait in a completion callback; the library refuses such waits. A blocking function of this package
// first starts the operation, and then waits in a second call. The package therefore checks before the first call
// whether it may wait. Otherwise the operation would be started although the wait is refused.
#pragma once

namespace rueda::python {

/// While this object exists, its thread runs a completion callback. Scopes may nest.
class CallbackScope {
public:
    CallbackScope();
    ~CallbackScope();
    CallbackScope(const CallbackScope&) = delete;
    CallbackScope& operator=(const CallbackScope&) = delete;

private:
    bool outer_;
};

[[nodiscard]] bool is_in_callback();
/// Returns false, with InvalidArgument set, if this thread runs a completion callback. The caller holds the GIL.
[[nodiscard]] bool may_wait();

}  // namespace rueda::python
