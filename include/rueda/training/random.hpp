// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Random numbers that are the same on every platform, with every compiler and standard library. Use them for values
/// that must not differ between ranks or between runs, such as permutations of data and initial parameters. Do not use
/// them for secrets.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>

namespace rueda::training {

/// The random number generator xoshiro256** 1.0 (Blackman and Vigna 2018, arXiv:1805.01407). SplitMix64 computes the
/// initial state of the generator from a seed and the number of a stream. Different streams of one seed are unrelated
/// sequences. For example, use one stream for each epoch or each parameter. Threads: use one object per thread.
class Random {
public:
    explicit Random(std::uint64_t seed, std::uint64_t stream = 0) noexcept {
        std::uint64_t mixed = seed;
        mixed = split_mix(mixed) ^ stream;
        for (std::uint64_t& word : state_) {
            word = split_mix(mixed);
        }
    }

    /// Returns 64 random bits.
    [[nodiscard]] std::uint64_t next() noexcept {
        const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }

    /// Returns a number from 0 to bound − 1. All these numbers have the same probability. `bound` must be ≥ 1.
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
        // Values above `limit` are discarded. Otherwise small results would be more probable than large ones. If
        // `bound` is far below 2^64, values are almost never discarded.
        const std::uint64_t surplus = (std::numeric_limits<std::uint64_t>::max() % bound + 1) % bound;
        const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() - surplus;
        std::uint64_t value = next();
        while (value > limit) {
            value = next();
        }
        return value % bound;
    }

    /// Returns a value with 0 ≤ value < 1, in steps of 2^−53.
    [[nodiscard]] double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

    /// The generator's state, which can be saved in a checkpoint like a tensor. To continue the sequence of another
    /// generator, copy the state of that generator into this state. The state must not be all zeros.
    [[nodiscard]] std::span<std::uint64_t> state() noexcept { return state_; }

private:
    /// SplitMix64 (Steele, Lea and Flood 2014), which Vigna recommends for seeding.
    static std::uint64_t split_mix(std::uint64_t& state) noexcept {
        state += 0x9E3779B97F4A7C15;
        std::uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }

    std::array<std::uint64_t, 4> state_{};
};

}  // namespace rueda::training
