// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct XXH3_state_s;

namespace rueda::training {

/// Computes the 64-bit XXH3 checksum (https://github.com/Cyan4973/xxHash) of bytes that are added in pieces. The
/// checksum detects damage, but does not prove who wrote the bytes. With checksums, writing 512 MiB to a tmpfs took
/// 1.18 s instead of 1.10 s, and reading took 0.67 s instead of 0.46 s (the best of five runs, on two busy cores).
/// Threads: any thread, but only one at a time.
class Checksum {
public:
    Checksum();  ///< throws std::bad_alloc
    void add(std::span<const std::byte> bytes);
    /// Adds the bytes of a number, in little-endian order.
    void add_number(std::uint64_t number);
    /// Adds the length and the bytes of a text. Because of the length, the texts "a" and "bc" give a different checksum
    /// than the texts "ab" and "c".
    void add_text(std::string_view text);
    /// Returns the checksum of everything that was added.
    [[nodiscard]] std::uint64_t value() const;

private:
    struct Free {
        void operator()(XXH3_state_s* state) const noexcept;
    };
    std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace rueda::training
