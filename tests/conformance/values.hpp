// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// The ranks whose inputs an operation reduced.
struct Among {
    int ranks = 1;
    bool several_hosts = false;  ///< whether the result is rounded after each rank, and not only at the end

    // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): ranks of one host are a number
    Among(int count) : ranks(count) {}
    explicit Among(const Client& client) : ranks(client.size()), several_hosts(client.rounds_every_step()) {}
};

/// Returns the types for one round of many small trials. Every round tests the same eight types. To save time, a round
/// tests at most one of the other types, which take turns. All returned types support the operation.
[[nodiscard]] std::vector<DType> dtypes_of_round(ReduceOp op, int round);

/// Returns an integer that every type represents exactly: −4 … 4, or 0 … 4 for unsigned types; ±1 and 2 for products; 0
/// and 1 for bool. Sums and products over eight ranks are also exact, within the range of the type.
[[nodiscard]] std::int64_t input_value(DType dtype, ReduceOp op, int rank, std::size_t index, int salt);

/// Returns element `index` as a number. Converts floats of 8 and 16 bits without the library.
[[nodiscard]] double element(const Tensor& tensor, std::size_t index);
void set_element(const Tensor& tensor, std::size_t index, std::int64_t value);

void fill_input(const Tensor& tensor, ReduceOp op, int rank, int salt);

/// Throws RankCheckFailed if an element of `result` is not the correct result for the inputs that fill_input() writes.
/// The expected values are computed one by one in integers and double.
void check_allreduce(const Tensor& result, const Reduce& reduce, Among among, int salt, const std::string& what);
/// Checks a part of a reduction like check_allreduce(). Element 0 of `result` belongs to element `first` of the inputs.
void check_reduction(const Tensor& result, std::size_t first, const Reduce& reduce, Among among, int salt,
                     const std::string& what);
/// Checks bit by bit that `result` contains what fill_input wrote for `rank`. `first` is an index in `result`, and
/// `from` is the same element's index in the input.
void check_copy(const Tensor& result, std::size_t first, std::size_t count, int rank, int salt, const std::string& what,
                std::size_t from = 0);

/// Memory of a tensor, followed by a margin with a pattern that must not change.
class Buffer {
public:
    Buffer(Client& client, DType dtype, std::vector<std::int64_t> shape, bool resident);
    ~Buffer();
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&&) = delete;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    [[nodiscard]] const Tensor& tensor() const { return tensor_; }
    void clear() { std::memset(tensor_.data, 0x5A, tensor_.bytes()); }
    /// Throws RankCheckFailed if the margin has changed.
    void check_margin(const std::string& what) const;

private:
    Client* client_;
    bool resident_;
    std::unique_ptr<std::byte[]> private_;
    Tensor tensor_;
};

}  // namespace rueda::tests
