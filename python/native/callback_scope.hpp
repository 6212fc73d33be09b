// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Where a thread must not wait: in a completion callback. The library refuses it what waits; here the blocking forms
// are started by one call and waited for by another, so that they have to look before they start anything.
#pragma once

namespace rueda::python {

/// In its scope this thread is in a completion callback. Nests.
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
/// False with InvalidArgument set: this thread is in a completion callback. Under the GIL.
[[nodiscard]] bool may_wait();

}  // namespace rueda::python
