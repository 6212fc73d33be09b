// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "tests/support/gpu_stand_in/cuda/clock.hpp"
#include "tests/support/gpu_stand_in/cuda/operation.hpp"

namespace rueda::tests::gpu {

/// The state of an event with CU_EVENT_INTERPROCESS, in memory that processes share. Each record has a number. A wait
/// takes the number of the last record at the time of the call, and waits until this record has ended.
class SharedEvent {
public:
    static std::shared_ptr<SharedEvent> create();
    static std::shared_ptr<SharedEvent> open(int file);  ///< takes ownership of the file; returns null if the file is
                                                         ///< no event
    ~SharedEvent();
    SharedEvent(const SharedEvent&) = delete;
    SharedEvent& operator=(const SharedEvent&) = delete;

    [[nodiscard]] std::uint64_t record();  ///< makes a new record, and returns its number
    [[nodiscard]] std::uint64_t last_record() const;
    /// Marks the record as ended. `clock` contains everything that is ordered before its end.
    void complete(std::uint64_t number, const Clock& clock);
    [[nodiscard]] bool is_complete(std::uint64_t number) const;
    /// Adds to `clock` everything that is ordered before the end of the record. The record must be complete.
    void join_clock(std::uint64_t number, Clock& clock) const;
    [[nodiscard]] int file() const { return file_; }

private:
    struct Page;
    SharedEvent(int file, Page* page) : file_(file), page_(page) {}

    int file_;
    Page* page_;
};

}  // namespace rueda::tests::gpu
