// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/soak/draws.hpp"

namespace rueda::tests {

/// The members of a process set, and this rank's position among them.
struct Members {
    ProcessSet set;
    std::vector<std::int32_t> ranks;  ///< ranks of the job in ascending order
    int position = -1;                ///< -1 if this rank is not a member
};

/// An operation in progress, with its memory and its expected result.
class RunningOperation {
public:
    /// Starts the operation, and waits for a blocking one. `tag` is for messages; no other message in progress in the
    /// set uses it.
    RunningOperation(const Draw& draw, const Members& members, const std::string& name, std::int32_t tag,
                     bool resident);

    /// Waits for the operation. Throws std::runtime_error with the operation's name if the result is wrong.
    void finish();

private:
    using Bytes = std::vector<std::byte>;
    struct FreeResident {
        void operator()(void* memory) const { rueda_deallocate(memory); }
    };
    /// A tensor of this rank, in private or in resident memory.
    struct Tensor {
        std::unique_ptr<void, FreeResident> resident;
        std::unique_ptr<Bytes> own;
        std::size_t bytes = 0;
        Shape shape;

        [[nodiscard]] void* data() const { return resident != nullptr ? resident.get() : own->data(); }
    };

    [[nodiscard]] Tensor make(const Shape& shape, bool resident) const;
    [[nodiscard]] Tensor input(std::int64_t rows, bool resident) const;
    [[nodiscard]] TensorView view(const Tensor& tensor) const { return {tensor.data(), draw_.dtype, tensor.shape}; }
    [[nodiscard]] int value(int member, std::int64_t index) const;
    [[nodiscard]] int reduced(std::int64_t index) const;
    [[nodiscard]] int neighbour(int distance) const;
    [[nodiscard]] int members() const { return static_cast<int>(members_.ranks.size()); }
    [[nodiscard]] int root() const;

    void start(bool resident);
    void start_allreduce(bool resident);
    void start_group(bool resident);
    void start_mismatch();
    void start_alltoall();
    void start_scatter();
    void start_message(bool resident);
    [[nodiscard]] std::vector<std::int64_t> splits_of(int member) const;

    [[nodiscard]] std::vector<int> expected(std::size_t tensor) const;
    [[nodiscard]] std::vector<int> expected_rows_of_all() const;
    [[nodiscard]] std::vector<int> expected_from_alltoall() const;
    [[nodiscard]] std::vector<int> expected_from_scatter() const;
    [[nodiscard]] std::vector<int> expected_message() const;
    [[nodiscard]] std::vector<int> expected_share() const;
    void compare(const void* data, std::int64_t elements, const std::vector<int>& right) const;
    [[noreturn]] void wrong(const std::string& what) const;

    Draw draw_;
    const Members& members_;
    std::string name_;
    std::int32_t tag_;
    std::vector<Tensor> tensors_;
    Handle handle_;
    Handle sent_;                ///< the send of a message; its receive is handle_
    bool has_finished_ = false;  ///< true after a blocking call, which leaves handle_ empty
};

}  // namespace rueda::tests
