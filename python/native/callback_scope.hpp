// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A thread must not wait in a completion callback. The library refuses calls that wait. But here a blocking form
// consists of two calls, one that starts and one that waits. So it has to check this before it starts anything.
#pragma once

namespace rueda::python {

/// While this object exists, its thread is in a completion callback. The objects may nest.
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
/// Returns false, with InvalidArgument set, if this thread is in a completion callback. Called under the GIL.
[[nodiscard]] bool may_wait();

}  // namespace rueda::python
