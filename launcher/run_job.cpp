// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/run_job.hpp"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "launcher/elastic/elastic_ranks.hpp"
#include "launcher/output/job_output.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/processes/signal_inbox.hpp"
#include "launcher/repeated_steps.hpp"
#include "launcher/start/direct_ranks.hpp"
#include "launcher/start/supervised_ranks.hpp"
#include "launcher/watch/job_ending.hpp"

namespace rueda::launcher {

namespace {

using Clock = std::chrono::steady_clock;

/// How long ruedarun still reads output after all ranks have ended. Descendants of ranks may still write.
constexpr std::chrono::milliseconds kDrainTime{500};

/// How long to wait for a better explanation of a rank's end. The end may be only the consequence of another failure,
/// in these two cases:
/// - mpirun ended the rank. The cause is then the end of mpirun itself, or the end of another rank after which mpirun
///   killed the remaining ranks.
/// - The job was aborted. The cause is then the rank that failed first.
constexpr std::chrono::seconds kSettleTime{1};

constexpr int kWrongUse = 2;
constexpr int kInternalFailure = 1;

std::unique_ptr<RankGroup> make_group(const LaunchPlan& plan, StartContext context) {
    if (plan.elastic) {
        return std::make_unique<ElasticRanks>(plan, std::move(context));
    }
    if (plan.way != LaunchWay::direct) {
        return std::make_unique<SupervisedRanks>(plan, std::move(context));
    }
    return std::make_unique<DirectRanks>(plan, std::move(context));
}

class RunningJob {
public:
    explicit RunningJob(const LaunchPlan& plan)
        : plan_(plan), output_(plan), ending_(plan.grace, plan.grace_after_abort) {}

    JobReport run(const Surroundings& surroundings, const std::string& program_file) {
        const Clock::time_point begin = Clock::now();
        JobReport report;
        report.exit_status = carry_out(surroundings, program_file);
        report.may_start_again = outcome_.is_worth_another_try() && group_ != nullptr && group_->has_started();
        report.steps = steps_;
        report.duration = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
        return report;
    }

private:
    int carry_out(const Surroundings& surroundings, const std::string& program_file) {
        if (const Status status = prepare(surroundings, program_file); !status.is_ok()) {
            output_.say(status.message());
            write_rest();
            return status.code() == ErrorCode::invalid_argument ? kWrongUse : kInternalFailure;
        }
        announce();
        if (const Status status = group_->start(output_); !status.is_ok()) {
            output_.say(status.message() + "; ending the job");
            start_failed_ = true;
            send(ending_.user_signal(SIGTERM, Clock::now()));
        }
        while (!group_->is_gone() || !released_) {
            turn();
        }
        end_leftover_children();
        drain();
        repeat_cause();
        write_rest();
        return start_failed_ ? kInternalFailure : outcome_.exit_status();
    }

    Status prepare(const Surroundings& surroundings, const std::string& program_file) {
        RUEDA_RETURN_IF_FAILED(signals_.open({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2}));
        ::signal(SIGPIPE, SIG_IGN);
        adopt_orphans();
        group_ = make_group(plan_, {surroundings.environment, program_file, signals_.original_mask(), &notifications_,
                                    surroundings.read});
        return output_.prepare();
    }

    void announce() {
        if (plan_.output == OutputMode::files) {
            output_.say(fmt::format("the output of {} goes to {}",
                                    plan_.ranks == 1 ? "the rank" : fmt::format("{} ranks", plan_.ranks),
                                    base::quote(plan_.output_dir + "/rank.*", 200)));
        }
    }

    void turn() {
        base::PollSet set;
        set.add(signals_.fd(), POLLIN, [] {});
        group_->add_to(set);
        output_.add_to(set);
        set.wake_at(ending_.deadline());
        set.wake_at(outcome_.is_unsettled() ? settle_at_ : std::nullopt);
        set.wait_and_dispatch();
        take_signals();
        note_ends(group_->take_ends());
        escalate();
        group_->advance(Clock::now());
        const bool is_over = group_->running().empty() && !group_->may_start_ranks() && !outcome_.is_unsettled();
        if (!released_ && (is_over || ending_.gave_up())) {
            settle();
            released_ = true;
            group_->release(Clock::now());
        }
    }

    void take_signals() {
        while (const std::optional<signalfd_siginfo> info = signals_.take()) {
            const int number = static_cast<int>(info->ssi_signo);
            if (number == SIGCHLD) {
                reap();
            } else if (number == SIGUSR1 || number == SIGUSR2) {
                group_->signal_ranks(number);
            } else if (number == SIGTSTP) {
                suspend();
            } else {
                end_on(number, came_from_keyboard(*info));
            }
        }
    }

    void reap() {
        collect_ended_children([this](pid_t pid, bool is_well) { group_->child_ends(pid, is_well); },
                               [this](pid_t pid, int wait_status) { group_->child_ended(pid, wait_status); });
    }

    /// Whether the signal came from the terminal, so that the rank has already got it too. The terminal signals all
    /// processes of its foreground group. A rank without a group of its own belongs to this group.
    [[nodiscard]] bool came_from_keyboard(const signalfd_siginfo& info) const {
        return !plan_.own_groups && info.ssi_code == SI_KERNEL;
    }

    void end_on(int number, bool ranks_have_it) {
        // If `released_` is true, all ranks have ended, and ruedarun only waits for the reader of its output. In this
        // case the user's signal ends ruedarun.
        if (released_) {
            leaving_ = true;
            return;
        }
        const int signal_number = ending_.user_signal(number, Clock::now());
        outcome_.interrupt(number);
        if (signal_number == number) {
            output_.say(fmt::format("stopped by signal {} ({}); ending the job", number, signal_text(number)));
        }
        if (signal_number == SIGKILL || !ranks_have_it) {
            send(signal_number);
        }
        in_a_hurry_ = in_a_hurry_ || impatient_;
        impatient_ = true;
    }

    /// Sends a signal to all ranks. SIGCONT follows, because a stopped rank does not react to other signals.
    void send(int signal_number) {
        group_->signal_ranks(signal_number);
        if (signal_number != SIGKILL) {
            group_->signal_ranks(SIGCONT);
        }
    }

    /// Stops the ranks and ruedarun after Ctrl-Z. When the user continues ruedarun by `fg`, this function continues the
    /// ranks.
    void suspend() {
        group_->signal_ranks(SIGSTOP);
        ::raise(SIGSTOP);
        group_->signal_ranks(SIGCONT);
    }

    void note_ends(const std::vector<RankEnd>& ends) {
        for (const RankEnd& end : ends) {
            output_.drain_rank(end.rank);
            steps_ = joined(steps_, end.steps);
        }
        for (const RankNotifications::Item& item : notifications_.note(ends)) {
            group_->notify_ranks(item);
        }
        outcome_.add(ends);
        if (outcome_.is_unsettled() && !settle_at_) {
            settle_at_ = Clock::now() + kSettleTime;
            if (outcome_.has_only_echoes_of_abort()) {
                ending_.job_aborted(Clock::now());
            } else {
                ending_.rank_failed(Clock::now());
            }
        }
        if (outcome_.is_unsettled() || outcome_.cause()) {
            group_->watch_closely();
        }
        const bool nothing_comes = outcome_.has_only_echoes_of_abort() && group_->running().empty();
        if (nothing_comes || (settle_at_ && Clock::now() >= *settle_at_)) {
            outcome_.settle();
        }
        tell_cause();
    }

    void settle() {
        outcome_.settle();
        tell_cause();
    }

    void tell_cause() {
        if (!outcome_.cause() || std::exchange(cause_told_, true)) {
            return;
        }
        if (!impatient_) {  // if the user has sent a signal, ruedarun has already printed why the job ends
            output_.say(describe(*outcome_.cause()) + (group_->running().empty() ? "" : "; ending the job"));
            errors_before_cause_ = output_.foreign_errors();
        }
        if (outcome_.cause()->abort_reason.empty()) {
            ending_.rank_failed(Clock::now());
        } else {
            ending_.job_aborted(Clock::now());
        }
    }

    /// Prints the cause again if ranks, mpirun or ruedarun have printed lines since the cause was printed. So the last
    /// line shows the cause, and not a consequence of the cause.
    void repeat_cause() {
        if (errors_before_cause_ && (output_.foreign_errors() > *errors_before_cause_ || said_more_since_cause_)) {
            output_.say("the job failed because " + describe(*outcome_.cause()));
        }
    }

    void escalate() {
        const std::optional<int> signal_number = ending_.advance(Clock::now());
        const std::vector<std::int32_t> running = group_->running();
        if (signal_number && !running.empty()) {
            output_.say(fmt::format("{} still {}; sending {}", base::format_ranks(running),
                                    running.size() == 1 ? "runs" : "run",
                                    *signal_number == SIGTERM ? "SIGTERM" : "SIGKILL"));
            said_more_since_cause_ = said_more_since_cause_ || cause_told_;
            send(*signal_number);
        }
    }

    /// Prints the output that ranks wrote before their end, unless the reader of ruedarun's output is too slow.
    void drain() {
        write_while([this] { return !output_.all_closed(); });
        output_.close_all();
        output_.finish();
    }

    void write_rest() {
        write_while([this] { return !output_.all_written(); });
    }

    template <class Condition>
    void write_while(Condition&& is_needed) {
        const Clock::time_point deadline = Clock::now() + kDrainTime;
        while (is_needed() && (Clock::now() < deadline || may_wait_for_reader()) && !asked_to_leave()) {
            base::PollSet set;
            set.add(signals_.fd(), POLLIN, [] {});
            output_.add_to(set);
            set.wake_at(may_wait_for_reader() ? std::nullopt : std::optional(deadline));
            set.wait_and_dispatch();
        }
    }

    /// Whether ruedarun still waits for the reader of its output. The wait has no time limit, because a user may keep a
    /// pager open for hours. A second signal of the user ends the wait.
    [[nodiscard]] bool may_wait_for_reader() const { return !output_.all_written() && !in_a_hurry_; }

    [[nodiscard]] bool asked_to_leave() {
        while (const std::optional<signalfd_siginfo> info = signals_.take()) {
            const int number = static_cast<int>(info->ssi_signo);
            leaving_ = leaving_ || (number != SIGCHLD && number != SIGUSR1 && number != SIGUSR2 && number != SIGTSTP);
        }
        return leaving_;
    }

    const LaunchPlan& plan_;
    SignalInbox signals_;
    JobOutput output_;
    JobEnding ending_;
    JobOutcome outcome_;
    RankNotifications notifications_;
    base::StepSpan steps_;
    std::unique_ptr<RankGroup> group_;
    bool released_ = false;
    bool impatient_ = false;   ///< the user has sent a signal
    bool in_a_hurry_ = false;  ///< the user has sent a second signal
    bool start_failed_ = false;
    bool leaving_ = false;
    bool cause_told_ = false;
    bool said_more_since_cause_ = false;  ///< ruedarun has printed lines about running ranks since it printed the cause
    std::optional<Clock::time_point> settle_at_;
    std::optional<std::size_t> errors_before_cause_;  ///< value of foreign_errors() when the cause was printed
};

}  // namespace

JobReport run_job(const LaunchPlan& plan, const Surroundings& surroundings, const std::string& program_file) {
    return RunningJob(plan).run(surroundings, program_file);
}

}  // namespace rueda::launcher
