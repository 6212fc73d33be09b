// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "tests/support/ranks/board.hpp"
#include "tests/support/ranks/leaks.hpp"

namespace rueda::tests {
namespace {

void signal_rank(const detail::Board& board, RanksAs as, int rank, int signal) {
    if (as != RanksAs::processes) {
        throw std::logic_error(fmt::format("signal {} to rank {}, which is a thread", signal, rank));
    }
    board.send_signal(rank, signal);
}

[[nodiscard]] bool thread_stands_still(const std::filesystem::path& folder) {
    std::ifstream status(folder / "status");
    std::string line;
    while (std::getline(status, line)) {
        if (line.rfind("State:\t", 0) == 0) {
            return line[7] == 'T' || line[7] == 'Z';
        }
    }
    return true;  // the thread has ended
}

/// Returns whether all threads of the process have stopped. They stop one after another.
[[nodiscard]] bool stands_still(int pid) {
    std::error_code ended;
    for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", pid), ended), end; !ended && task != end;
         task.increment(ended)) {
        if (!thread_stands_still(task->path())) {
            return false;
        }
    }
    return true;
}

void stop(const detail::Board& board, RanksAs as, int rank) {
    const int pid = board.process_of(rank);
    signal_rank(board, as, rank, SIGSTOP);
    while (pid > 0 && !stands_still(pid)) {
        std::this_thread::yield();
    }
}

[[nodiscard]] std::string text_of(const RankOutcome& outcome) {
    switch (outcome.end) {
        case RankEnd::returned:
            return "returned";
        case RankEnd::threw:
            return "threw: " + outcome.text;
        case RankEnd::exited:
            return fmt::format("exited with status {}", outcome.exit_status);
        case RankEnd::killed:
            return fmt::format("was killed by signal {}", outcome.signal);
        case RankEnd::hung:
            return "hung";
    }
    return "?";
}

}  // namespace

int RankContext::size() const { return board_.size(); }
RanksAs RankContext::as() const { return ways_.as; }
void RankContext::phase(std::string_view text) { board_.enter_phase(rank_, text); }
void RankContext::report(const std::string& key, const std::string& value) { ways_.report(rank_, key, value); }
void RankContext::wait_for_phase(int rank, std::string_view text) const { board_.wait_for_phase(rank, text); }
void RankContext::kill_rank(int rank, int signal) const { signal_rank(board_, ways_.as, rank, signal); }
void RankContext::stop_rank(int rank) const { stop(board_, ways_.as, rank); }

Result<std::unique_ptr<collectives::ControlPlane>> RankContext::open_control_plane() {
    return ways_.open_control_plane(rank_, planes_++);
}

std::string RunningRanks::phase_of(int rank) const { return board_.phase_of(rank); }
void RunningRanks::wait_for_phase(int rank, std::string_view text) const { board_.wait_for_phase(rank, text); }
void RunningRanks::kill_rank(int rank, int signal) const { signal_rank(board_, as_, rank, signal); }

void RunningRanks::stop_rank(int rank) const { stop(board_, as_, rank); }

const std::string& RankOutcome::value(const std::string& key) const {
    const auto found = values.find(key);
    if (found == values.end()) {
        throw std::out_of_range(fmt::format("the rank reported no '{}'; it {}", key, text_of(*this)));
    }
    return found->second;
}

bool RanksResult::passed() const {
    return leaks.empty() && std::all_of(ranks.begin(), ranks.end(),
                                        [](const RankOutcome& outcome) { return outcome.end == RankEnd::returned; });
}

std::string RanksResult::text() const {
    std::string text;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        text += fmt::format("rank {} {} (last phase '{}')\n", rank, text_of(ranks[rank]), ranks[rank].last_phase);
    }
    for (const std::string& leak : leaks) {
        text += "left behind: " + leak + "\n";
    }
    return text;
}

RanksResult run_ranks(int size, const std::function<void(RankContext&)>& body, const RanksOptions& options) {
    detail::LeakCheck leaks;
    RanksResult result;
    {
        detail::Board board(size, options.deadline);
        result.ranks = options.as == RanksAs::threads ? detail::run_as_threads(body, options, board)
                                                      : detail::run_as_processes(body, options, board);
    }
    result.leaks = leaks.find();
    return result;
}

}  // namespace rueda::tests
