// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gpu_stand_in/control.hpp"
#include "tests/support/gpu_stand_in/cuda/clock.hpp"

namespace rueda::tests::gpu {

struct Stream;

/// The end of an operation. Machine::mutex protects it.
struct Completion {
    bool done = false;
    Clock clock{};  ///< the clock of everything that is ordered before the end; valid if `done`
    std::chrono::steady_clock::time_point time{};
};
using CompletionPtr = std::shared_ptr<Completion>;

/// One step of a stream: a copy, a kernel, a wait for an event, a kernel of NCCL, …
///
/// Threads: the thread of the stream's device calls may_start(), run() and drop().
class Operation {
public:
    enum class Kind : std::uint8_t { work, host_function, nccl, marker };

    explicit Operation(std::string label, Kind kind = Kind::work) : label_(std::move(label)), kind_(kind) {}
    virtual ~Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    /// Whether the operation itself is ready to start. The caller holds the mutex. The caller also checks that the
    /// operations in `after` have ended.
    [[nodiscard]] virtual bool may_start() { return true; }
    /// Returns the memory that the operation accesses. The stand-in calls this function once, when the operation
    /// starts.
    [[nodiscard]] virtual std::vector<Range> ranges() { return {}; }
    /// Whether this operation may reach memory of other devices without peer access. The driver's copies may do so.
    [[nodiscard]] virtual bool reaches_other_devices() const { return false; }
    /// Executes a part of the operation. Returns whether the operation has ended; if not, this function is called again
    /// later.
    [[nodiscard]] virtual bool run() = 0;
    /// The device's thread calls this function instead of run() if the device is broken.
    virtual void drop() {}

    [[nodiscard]] const std::string& label() const { return label_; }
    [[nodiscard]] Kind kind() const { return kind_; }

    // The stream fills in the following members when the operation is submitted. Machine::mutex protects them.
    std::vector<CompletionPtr> after{};  ///< the completions that must be done before this operation starts
    CompletionPtr completion = std::make_shared<Completion>();
    Clock clock{};  ///< the clock of everything that is ordered before the operation
    std::chrono::steady_clock::time_point not_before{};
    bool delayed = false;  ///< not_before was chosen
    bool started = false;

private:
    std::string label_;
    Kind kind_;
};

}  // namespace rueda::tests::gpu
