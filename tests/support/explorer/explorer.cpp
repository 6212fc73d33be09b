// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/explorer/explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "tests/support/explorer/causality.hpp"
#include "tests/support/explorer/execution.hpp"
#include "tests/support/explorer/schedule_text.hpp"

// Words of this file: A *node* is a point of the current schedule at which the explorer chooses a process. Its
// *branches* are the processes that must be tried at this node. A process *sleeps* at a node if an earlier branch has
// already covered every continuation that begins with this process. The process wakes when another transition conflicts
// with its next one.
//
// Sleep sets: P. Godefroid, Partial-Order Methods for the Verification of Concurrent Systems (1996), chapter 5.
// Branches by races: P. Abdulla, S. Aronsson, B. Jonsson and K. Sagonas, Optimal Dynamic Partial Order Reduction
// (2014), algorithm 1 (source sets). The older algorithm of Flanagan and Godefroid (2005) misses schedules when that
// algorithm is combined with sleep sets: it skips a sleeping branch, and with it the races that only this branch would
// show. Bound on preemptions: M. Musuvathi and S. Qadeer, Iterative Context Bounding (2007).

namespace rueda::explorer {
namespace {

constexpr std::size_t kNobody = kMaxProcesses;

struct Node {
    std::size_t chosen = 0;
    ProcessSet enabled = 0;
    ProcessSet branches = 0;
    ProcessSet done = 0;
    ProcessSet asleep = 0;
    std::size_t last_thread = kNobody;  // the last thread that moved before this node
    int preemptions = 0;                // number of preemptions before this node
};

[[nodiscard]] std::size_t lowest(ProcessSet set) { return static_cast<std::size_t>(__builtin_ctz(set)); }

class Search {
public:
    Search(const std::function<void()>& setup, const std::vector<std::function<void()>>& bodies,
           const std::function<void()>& check, const Options& options)
        : setup_(setup),
          check_(check),
          options_(options),
          reduction_(options.preemptions ? Reduction::none : options.reduction),
          execution_(bodies, options.memory, options.pause_waits) {}

    Exploration run() {
        do {
            run_one();
        } while (execution_.failure() == Failure::none && go_back() && result_.schedules < options_.schedules);
        result_.failure = execution_.failure();
        if (result_.failure != Failure::none) {
            result_.exhausted = false;
            result_.report = fmt::format("{}\nafter {} complete schedules, in this one:\n{}", execution_.failure_text(),
                                         result_.schedules, schedule_text(execution_));
        }
        return result_;
    }

private:
    void run_one() {
        try {
            run_threads();
            if (execution_.failure() == Failure::none) {
                check_();
            }
        } catch (const FailedOutsideThreads&) {
        } catch (const std::exception& error) {
            execution_.note_failure(Failure::exception, fmt::format("setup or check threw: {}", error.what()));
        }
    }

    /// Repeats the schedule in nodes_ and extends it with new nodes.
    void run_threads() {
        causality_.clear();
        last_thread_ = kNobody;
        preemptions_ = 0;
        asleep_ = 0;
        bool repeats = false;
        execution_.begin(setup_);
        while (execution_.failure() == Failure::none) {
            const ProcessSet enabled = execution_.enabled();
            if (enabled == 0) {
                break;
            }
            const std::size_t depth = execution_.events();
            if (depth >= options_.steps) {
                execution_.note_failure(Failure::too_long, fmt::format("more than {} steps", options_.steps));
                break;
            }
            if (depth < nodes_.size() && nodes_[depth].enabled != enabled) {
                note_other_way();
                break;
            }
            if (depth == nodes_.size()) {
                repeats = repeats || !add_node(enabled);
            }
            if (repeats) {
                // This schedule repeats an earlier one. It still runs to its end, because the stacks can be used again
                // only after the threads have returned.
                execution_.step(prefer(enabled));
            } else {
                const bool is_new = depth + 1 == nodes_.size();
                const Node& node = nodes_[depth];
                asleep_ = node.asleep | node.done;
                move(node.chosen, enabled, is_new);
            }
        }
        finish(repeats);
    }

    void finish(bool repeats) {
        if (execution_.failure() == Failure::none && execution_.events() < nodes_.size()) {
            note_other_way();
        }
        result_.longest = std::max<std::size_t>(result_.longest, execution_.events());
        if (execution_.failure() == Failure::none && !execution_.all_finished()) {
            execution_.note_failure(Failure::deadlock, "deadlock: " + execution_.describe_waiting());
        }
        if (execution_.failure() == Failure::none) {
            ++(repeats ? result_.cut : result_.schedules);
        }
    }

    void note_other_way() {
        execution_.note_failure(Failure::not_repeatable,
                                "the same schedule went another way: the threads depend on a clock, on random numbers "
                                "or on addresses");
    }

    /// Adds a node at the end of the schedule. Adds nothing and returns false if all continuations from there were
    /// already explored.
    bool add_node(ProcessSet enabled) {
        Node node;
        node.enabled = enabled;
        node.asleep = reduction_ == Reduction::none ? 0 : asleep_ & enabled;
        node.last_thread = last_thread_;
        node.preemptions = preemptions_;
        const ProcessSet candidates = enabled & ~node.asleep;
        if (candidates == 0) {
            return false;
        }
        node.chosen = prefer(candidates);
        node.branches = reduction_ == Reduction::dynamic ? only(node.chosen) : within_bound(node);
        nodes_.push_back(node);
        return true;
    }

    /// Prefers to continue with the same thread, because a failure with few switches is easier to read.
    [[nodiscard]] std::size_t prefer(ProcessSet candidates) const {
        return last_thread_ != kNobody && contains(candidates, last_thread_) ? last_thread_ : lowest(candidates);
    }

    [[nodiscard]] ProcessSet within_bound(const Node& node) const {
        const bool could_go_on = node.last_thread != kNobody && contains(node.enabled, node.last_thread);
        if (!options_.preemptions || !could_go_on || node.preemptions < *options_.preemptions) {
            return node.enabled;
        }
        constexpr ProcessSet kBuffers = ((ProcessSet{1} << kMaxThreads) - 1) << kMaxThreads;
        return node.enabled & (only(node.last_thread) | kBuffers);
    }

    void move(std::size_t process, ProcessSet enabled, bool is_new) {
        if (!is_buffer(process)) {
            preemptions_ += last_thread_ != kNobody && last_thread_ != process && contains(enabled, last_thread_);
            last_thread_ = process;
        }
        const Transition& transition = execution_.step(process);
        wake_sleepers(process, transition);
        if (reduction_ == Reduction::dynamic) {
            if (is_new) {
                branch_at_races(process, transition.footprint);
            }
            note_order(process, transition);
        }
    }

    void wake_sleepers(std::size_t process, const Transition& transition) {
        asleep_ &= ~only(process);
        for (std::size_t other = 0; other < kMaxProcesses; ++other) {
            if (contains(asleep_, other) && thread_of(other) != thread_of(process) &&
                conflict(transition.footprint, execution_.footprint(other))) {
                asleep_ &= ~only(other);
            }
        }
    }

    void note_order(std::size_t process, const Transition& transition) {
        causality_.record(process, transition.footprint);
        for (const Transition::Cause& cause : transition.causes) {
            causality_.add_cause(cause.process, cause.event);
        }
        for (const Transition::WriteCause& cause : transition.write_causes) {
            causality_.add_writes_as_cause(cause.process, cause.location);
        }
        for (std::size_t thread = 0; thread < kMaxThreads; ++thread) {
            if (contains(transition.after_own_buffer, thread)) {
                causality_.add_process_as_cause(thread, buffer_of(thread));
            }
        }
    }

    /// For each transition that races with the present one, adds a branch that leads to the opposite order. Such a
    /// branch always exists, because a process cannot disable another process's next transition.
    void branch_at_races(std::size_t process, const Footprint& footprint) {
        for (const std::uint32_t event : causality_.races(process, footprint)) {
            Node& node = nodes_[event];
            const ProcessSet first = node.enabled & causality_.initials(event, process, footprint);
            if (first != 0 && (first & node.branches) == 0) {
                node.branches |= only(contains(first, process) ? process : lowest(first));
            }
        }
    }

    /// Goes back to the last node with an untried branch. Returns false if everything was explored.
    bool go_back() {
        while (!nodes_.empty()) {
            Node& node = nodes_.back();
            node.done |= only(node.chosen);
            const ProcessSet left = node.branches & ~node.done & ~node.asleep;
            if (left != 0) {
                node.chosen = lowest(left);
                return true;
            }
            nodes_.pop_back();
        }
        result_.exhausted = true;
        return false;
    }

    const std::function<void()>& setup_;
    const std::function<void()>& check_;
    const Options& options_;
    const Reduction reduction_;
    Execution execution_;
    Causality causality_;
    std::vector<Node> nodes_;
    ProcessSet asleep_ = 0;
    std::size_t last_thread_ = kNobody;
    int preemptions_ = 0;
    Exploration result_;
};

}  // namespace

Exploration explore_erased(const std::function<void()>& setup, const std::vector<std::function<void()>>& bodies,
                           const std::function<void()>& check, const Options& options) {
    return Search(setup, bodies, check, options).run();
}

}  // namespace rueda::explorer
