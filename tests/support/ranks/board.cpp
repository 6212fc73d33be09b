// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks/board.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/shared_memory/atomics.hpp"

namespace rueda::tests::detail {
namespace {

constexpr std::size_t kWords = 12;  // number of words for a phase's text
// The board remembers this many phases of each rank.
constexpr std::size_t kPhases = 1024;
constexpr std::size_t kTextBytes = kWords * sizeof(std::uint64_t);

[[nodiscard]] std::uint64_t now_nanoseconds() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

using Words = std::array<std::uint64_t, kWords>;
[[nodiscard]] Words words_of(std::string_view text) {
    Words words{};
    std::memcpy(words.data(), text.data(), std::min(text.size(), kTextBytes - 1));
    return words;
}

/// Returns the 64-bit FNV-1a hash of the part of the text that the board stores. The hash is never 0, because 0 means
/// "no phase".
[[nodiscard]] std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const char c : text.substr(0, kTextBytes - 1)) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    }
    return hash == 0 ? 1 : hash;
}

/// Returns the process state from /proc, for example "S (sleeping)". This state shows whether a rank is stopped.
[[nodiscard]] std::string process_state(int pid) {
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    std::string line;
    while (std::getline(status, line)) {
        if (line.rfind("State:\t", 0) == 0) {
            return line.substr(7);
        }
    }
    return "gone";
}

}  // namespace

/// The entry of one rank. Only the rank writes its phase (`version` and the fields after it). The test's process writes
/// `process` and `ended`.
struct Line {
    std::atomic<std::int32_t> process{0};
    std::atomic<std::uint32_t> ended{0};
    std::atomic<std::uint32_t> version{0};  // odd while `text` is written
    std::array<std::atomic<std::uint64_t>, kWords> text{};
    std::atomic<std::uint64_t> since{0};
    std::atomic<std::uint32_t> phases{0};
    std::array<std::atomic<std::uint64_t>, kPhases> history{};
};

struct Board::Shared {
    std::atomic<std::uint32_t> changes{0};  // used as a futex
    std::atomic<std::uint32_t> started{0};  // used as a futex
    std::array<Line, kMaxRanks> lines;
};

Board::Board(int size, std::chrono::milliseconds deadline)
    : size_(size), deadline_(std::chrono::steady_clock::now() + deadline) {
    if (size < 1 || size > kMaxRanks) {
        throw std::invalid_argument(fmt::format("run_ranks: {} ranks; 1 to {} are possible", size, kMaxRanks));
    }
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    shared_ = new (memory) Shared;
    for (int rank = 0; rank < size; ++rank) {
        enter_phase(rank, "not started");
    }
}

Board::~Board() { ::munmap(shared_, sizeof(Shared)); }

void Board::check_rank(int rank) const {
    if (rank < 0 || rank >= size_) {
        throw std::invalid_argument(fmt::format("rank {}; there are {}", rank, size_));
    }
}

void Board::changed() {
    shared_->changes.fetch_add(1, std::memory_order_release);
    base::StdAtomics::futex_wake_all(shared_->changes);
}

void Board::enter_phase(int rank, std::string_view text) {
    Line& line = shared_->lines[static_cast<std::size_t>(rank)];
    const Words words = words_of(text);
    line.version.fetch_add(1, std::memory_order_acquire);
    for (std::size_t i = 0; i < kWords; ++i) {
        line.text[i].store(words[i], std::memory_order_release);
    }
    line.since.store(now_nanoseconds(), std::memory_order_release);
    line.version.fetch_add(1, std::memory_order_release);
    const std::uint32_t number = line.phases.fetch_add(1, std::memory_order_relaxed);
    line.history[number % kPhases].store(hash_of(text), std::memory_order_release);
    changed();
}

std::string Board::phase_of(int rank) const {
    check_rank(rank);
    const Line& line = shared_->lines[static_cast<std::size_t>(rank)];
    Words words{};
    // If the rank was killed while it wrote, the version stays odd. A reader, which waits for an even version,
    // therefore gives up after some attempts.
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const std::uint32_t before = line.version.load(std::memory_order_acquire);
        for (std::size_t i = 0; i < kWords; ++i) {
            words[i] = line.text[i].load(std::memory_order_acquire);
        }
        if (before % 2 == 0 && line.version.load(std::memory_order_relaxed) == before) {
            break;
        }
    }
    std::array<char, kTextBytes> text{};
    std::memcpy(text.data(), words.data(), kTextBytes);
    text.back() = '\0';
    return text.data();
}

bool Board::was_in_phase(int rank, std::string_view text) const {
    const Line& line = shared_->lines[static_cast<std::size_t>(rank)];
    const std::uint64_t wanted = hash_of(text);
    return std::any_of(line.history.begin(), line.history.end(), [&](const std::atomic<std::uint64_t>& phase) {
        return phase.load(std::memory_order_acquire) == wanted;
    });
}

void Board::wait_for_phase(int rank, std::string_view text) const {
    check_rank(rank);
    const Line& line = shared_->lines[static_cast<std::size_t>(rank)];
    while (true) {
        const std::uint32_t seen = shared_->changes.load(std::memory_order_acquire);
        const bool ended = line.ended.load(std::memory_order_acquire) != 0;
        if (was_in_phase(rank, text)) {
            return;
        }
        const auto rest = deadline_ - std::chrono::steady_clock::now();
        if (ended || rest <= std::chrono::nanoseconds::zero()) {
            throw std::runtime_error(fmt::format("rank {} {} in phase '{}', never in '{}'", rank,
                                                 ended ? "ended" : "is still", phase_of(rank), text));
        }
        base::StdAtomics::futex_wait(shared_->changes, seen, rest);
    }
}

void Board::start() {
    shared_->started.store(1, std::memory_order_release);
    base::StdAtomics::futex_wake_all(shared_->started);
}

void Board::wait_for_start() const {
    while (shared_->started.load(std::memory_order_acquire) == 0) {
        base::StdAtomics::futex_wait(shared_->started, 0);
    }
}

void Board::set_process(int rank, int pid) {
    shared_->lines[static_cast<std::size_t>(rank)].process.store(pid, std::memory_order_release);
}

int Board::process_of(int rank) const {
    check_rank(rank);
    return shared_->lines[static_cast<std::size_t>(rank)].process.load(std::memory_order_acquire);
}

void Board::set_ended(int rank) {
    Line& line = shared_->lines[static_cast<std::size_t>(rank)];
    line.process.store(0, std::memory_order_release);
    line.ended.store(1, std::memory_order_release);
    changed();
}

void Board::send_signal(int rank, int signal) const {
    const int pid = process_of(rank);
    if (pid > 0 && ::kill(pid, signal) != 0 && errno != ESRCH) {
        throw std::system_error(errno, std::generic_category(), fmt::format("signal {} to rank {}", signal, rank));
    }
}

std::string Board::describe() const {
    std::string text;
    for (int rank = 0; rank < size_; ++rank) {
        const Line& line = shared_->lines[static_cast<std::size_t>(rank)];
        const double since = static_cast<double>(now_nanoseconds() - line.since.load(std::memory_order_acquire)) * 1e-9;
        const int pid = process_of(rank);
        const std::string state = line.ended.load(std::memory_order_acquire) != 0 ? "ended"
                                  : pid > 0 ? fmt::format("process {}: {}", pid, process_state(pid))
                                            : "running";
        text += fmt::format("  rank {} is in phase '{}' since {:.1f} s ({})\n", rank, phase_of(rank), since, state);
    }
    return text;
}

}  // namespace rueda::tests::detail
