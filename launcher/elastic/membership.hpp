// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "launcher/hosts/hosts.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// Decides which workers an elastic job has, and which of them form its next generation
/// (docs/design/0028-elastic-jobs.md). A *worker* is a process. A *generation* is one job of Rueda: its members are
/// workers, each with a rank. A worker that has not been a member yet is a *newcomer*. This is a pure state machine: it
/// reads no clock, starts no processes and sends nothing. The caller reports events, and carries out the actions.
///
///   worker:  started ──calls init()──▶ waits ──form──▶ member ──its job is over, and it calls init()──▶ waits ──▶ …
///
/// A generation ends when one of its members calls init() again and waits. The next generation is formed as soon as no
/// living member runs any more. Until then, a member that runs may hold the newest state of the training.
class Membership {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// How a worker has ended.
    enum class Ending {
        well,    ///< with exit status 0
        failed,  ///< the worker ended by itself, with an error; its host gets no new worker for a while
        echo,    ///< another failure had aborted the job, and this worker ended with an error because of that
    };

    struct Ended {
        int worker = 0;
        Ending how = Ending::well;
    };
    struct Member {
        int worker = 0;
        int rank = 0;
        std::string host{};
    };
    /// Start the program of a worker on a host.
    struct Start {
        int worker = 0;
        std::string host{};
    };
    /// Give all members their ranks in a new generation. `members` is ordered by rank.
    struct Form {
        int generation = 0;
        std::vector<Member> members{};
    };
    /// Tell a member that the slots have changed. The member's next commit then ends the generation.
    struct Tell {
        int worker = 0;
        int changes = 0;  ///< bits of base::LauncherNotification::SlotChange
    };
    /// End a worker that the job does not need any more. The end of this worker does not count as a failure.
    struct Dismiss {
        int worker = 0;
        std::string reason{};
    };
    /// Kill a member that did not wait for the next generation in time. The caller then reports the end of this member
    /// like any other end. The next generation is formed only after this end, because until then the member may use the
    /// memory of the other members.
    struct Kill {
        int worker = 0;
        std::string reason{};
    };
    /// The job is over. If the job has failed, the caller ends the workers that still run.
    struct End {
        bool success = false;
        std::string reason{};  ///< why it has failed
    };
    using Action = std::variant<Start, Form, Tell, Dismiss, Kill, End>;

    Membership(const ElasticPlan& plan, TimePoint now) : plan_(plan), pending_since_(now) {}

    /// Sets the slots of the hosts. Before the first call, the job has no slots.
    void set_slots(std::vector<Host> hosts, TimePoint now);
    /// Reports that a worker has no job, and waits for the next generation.
    void waits(int worker, TimePoint now);
    /// Reports that these workers have ended. Report all ends that were noticed together in one call. Otherwise a
    /// generation could be formed with a worker that has ended, but whose end was not reported yet.
    void ended(std::span<const Ended> together, TimePoint now);
    void ended(int worker, Ending how, TimePoint now);
    /// Call this when deadline() has passed.
    void advance(TimePoint now);

    /// Returns the actions since the last call, in the order in which they must be carried out.
    [[nodiscard]] std::vector<Action> take_actions();
    [[nodiscard]] std::optional<TimePoint> deadline() const;
    [[nodiscard]] bool is_over() const { return over_; }
    /// The number of the current generation; −1 before the first one.
    [[nodiscard]] int generation() const { return generation_; }
    /// Returns the worker's rank in the current generation; −1 if it is a newcomer or has ended.
    [[nodiscard]] int rank_of(int worker) const;
    /// Returns the living workers.
    [[nodiscard]] std::vector<int> workers() const;

private:
    struct Worker {
        std::string host;
        int rank = -1;  ///< −1 for a newcomer
        bool waits = false;
        int told = 0;  ///< the changes of the slots that this member was told in this generation: bits of SlotChange
        bool is_killed = false;
    };
    struct Failures {
        int count = 0;
        TimePoint blocked_until;
    };

    void note_end(int worker, Ending how, TimePoint now);
    void settle(TimePoint now);
    [[nodiscard]] bool end_if_over();
    void end(bool success, std::string reason);
    void dismiss(int worker, const std::string& reason);
    void dismiss_newcomers_without_slots();
    void start_workers(TimePoint now);
    [[nodiscard]] bool is_ready_to_form() const;
    void form_if_ready(bool is_first_late);
    void form(const std::vector<int>& kept);
    [[nodiscard]] std::vector<int> candidates() const;
    [[nodiscard]] std::vector<int> keep_within_slots(const std::vector<int>& pool) const;
    void give_up_waiting(TimePoint now);
    [[nodiscard]] bool kill_late_members();
    void tell_members();
    void note_failure(const std::string& host, TimePoint now);

    [[nodiscard]] int slots_of(const std::string& host) const;
    [[nodiscard]] int workers_on(const std::string& host) const;
    [[nodiscard]] int wanted() const;
    [[nodiscard]] bool may_reset() const;
    [[nodiscard]] bool is_pending() const;
    template <class Condition>
    [[nodiscard]] int count(Condition&& condition) const;

    const ElasticPlan plan_;
    std::vector<Host> hosts_;
    std::map<int, Worker> alive_;
    std::map<std::string, Failures> failures_;
    std::vector<Action> actions_;
    int next_worker_ = 0;
    int generation_ = -1;
    int lost_members_ = 0;      ///< how many members of the current generation have failed
    int finished_members_ = 0;  ///< how many members of the current generation have ended successfully
    int failed_workers_ = 0;
    /// How many workers ended by themselves before the first generation. Workers that were dismissed do not count,
    /// because they may be started again.
    int ended_before_first_ = 0;
    bool has_finished_before_first_ = false;  ///< whether a worker ended successfully before the first generation
    TimePoint pending_since_;                 ///< since when workers wait for the next generation
    bool over_ = false;
};

}  // namespace rueda::launcher
