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

/// XXH3 of 64 bits over bytes that come in pieces (https://github.com/Cyan4973/xxHash). It finds damage; it
/// does not prove who wrote the bytes. With it, 512 MiB on a tmpfs took 1.18 s to write instead of 1.10, and 0.67 s to
/// read instead of 0.46 (the best of five, on two busy cores). Threads: one at a time.
class Checksum {
public:
    Checksum();  ///< throws std::bad_alloc
    void add(std::span<const std::byte> bytes);
    /// Adds a number, in little-endian order.
    void add_number(std::uint64_t number);
    /// Adds the length and the bytes of a text, so that two texts differ from one long text.
    void add_text(std::string_view text);
    /// The checksum of everything that was added so far.
    [[nodiscard]] std::uint64_t value() const;

private:
    struct Free {
        void operator()(XXH3_state_s* state) const noexcept;
    };
    std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace rueda::training
