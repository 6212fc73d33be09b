// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A thread must not wait in a completion callback, and the library refuses calls that wait there. But the package's
// blocking functions consist of two calls: the first starts the operation, the second waits. So the package checks
// before the first call whether it may wait.
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
