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

/// The ranks over which something was reduced.
struct Among {
    int ranks = 1;
    bool several_hosts = false;  ///< a float is rounded once for each rank, and not only at the end

    // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): ranks of one host are a number
    Among(int count) : ranks(count) {}
    explicit Among(const Client& client) : ranks(client.size()), several_hosts(client.local_size() < client.size()) {}
};

/// The dtypes for a round of many small trials: eight of them always, and the others one after the other, so that
/// rounds stay short. Only dtypes that support the operation.
[[nodiscard]] std::vector<DType> dtypes_of_round(ReduceOp op, int round);

/// Whole numbers that every dtype holds exactly. Their sums and products over eight ranks are also exact, as far as the
/// dtype reaches. Values are −4 … 4, or 0 … 4 for unsigned types; for products ±1 and 2; for bool 0 and 1.
[[nodiscard]] std::int64_t input_value(DType dtype, ReduceOp op, int rank, std::size_t index, int salt);

/// Element `index` of a tensor, as a number. 16-bit floats are converted by hand.
[[nodiscard]] double element(const Tensor& tensor, std::size_t index);
void set_element(const Tensor& tensor, std::size_t index, std::int64_t value);

void fill_input(const Tensor& tensor, ReduceOp op, int rank, int salt);

/// Throws RankCheckFailed if an element is not what the definition of the operation gives for the inputs of fill_input.
/// The expected values are computed one by one in whole numbers and double.
void check_allreduce(const Tensor& result, const Reduce& reduce, Among among, int salt, const std::string& what);
/// The same for a piece: element 0 of `result` is element `first` of the inputs.
void check_reduction(const Tensor& result, std::size_t first, const Reduce& reduce, Among among, int salt,
                     const std::string& what);
/// Checks, bit for bit, that `result` holds what fill_input gave rank `rank`. `first` is the index of the first element
/// in `result`, `from` its index in the input.
void check_copy(const Tensor& result, std::size_t first, std::size_t count, int rank, int salt, const std::string& what,
                std::size_t from = 0);

/// Memory for a tensor, followed by a margin that must keep its pattern.
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
    /// Throws RankCheckFailed if the margin was written to.
    void check_margin(const std::string& what) const;

private:
    Client* client_;
    bool resident_;
    std::unique_ptr<std::byte[]> private_;
    Tensor tensor_;
};

}  // namespace rueda::tests
