// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"

namespace rueda::collectives::cuda {

/// Sends bytes from each member of a process set to all members. All members send the same number of bytes. An exchange
/// ends only after all members have begun it. When it ends on a member, this member therefore knows that the other
/// members have done everything that they do before the exchange.
///
/// Threads: one at a time.
class HostExchange {
public:
    /// `host` is the set's communicator for the CPU, whose members are all on this host. It must outlive this object.
    HostExchange(Communicator& host, std::uint32_t members) : host_(host), locations_(members), rows_(members, 1) {
        for (Location& location : locations_) {
            location.first_dimension = 1;
        }
    }

    /// Begins an exchange, in which this member sends `own`. No other task of the communicator may be in progress.
    void begin(std::span<const std::byte> own) {
        bytes_ = own.size();
        own_.assign(own.begin(), own.end());
        received_.assign(bytes_ * rows_.size(), std::byte{0});
        segments_[0] = {.dtype = DType::uint8, .count = bytes_, .input = own_.data(), .output = received_.data()};
        task_ = &host_.start({.operation = Operation::allgather,
                              .segments = segments_,
                              .locations = locations_,
                              .splits = {},
                              .rows = rows_});
    }
    [[nodiscard]] StepResult step(StepWork& work) {
        const StepResult result = task_->step();
        work = task_->last_work();
        if (result == StepResult::done) {
            task_ = nullptr;
        }
        return result;
    }
    /// Returns the bytes that the member sent. Call this after the exchange is done. The caller must check the bytes,
    /// because they come from another process.
    [[nodiscard]] std::span<const std::byte> of(std::size_t member) const {
        return std::span(received_).subspan(member * bytes_, bytes_);
    }

private:
    Communicator& host_;
    std::vector<Location> locations_;
    std::vector<std::int64_t> rows_;
    std::array<Segment, 1> segments_{};
    std::size_t bytes_ = 0;
    std::vector<std::byte> own_;
    std::vector<std::byte> received_;
    Task* task_ = nullptr;  // null while there is no exchange
};

}  // namespace rueda::collectives::cuda
