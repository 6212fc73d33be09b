// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/evaluate/evaluate_command.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/network/poll_set.hpp"
#include "base/status.hpp"
#include "launcher/evaluate/checkpoint_folder.hpp"
#include "launcher/options/command_app.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/processes/signal_inbox.hpp"

namespace rueda::launcher {

namespace {

using Clock = std::chrono::steady_clock;
using SecondsPassed = std::chrono::duration<double>;

constexpr int kEvaluationFailed = 1;
constexpr int kNothingNew = 2;
/// If a signal ends the command, its status is this number plus the number of the signal, as in a shell.
constexpr int kSignalled = 128;

struct EvaluateOptions {
    std::string folder;
    double interval = 2.0;              ///< seconds between two checks of the folder
    double timeout = 0.0;               ///< seconds without a new checkpoint after which the command ends; 0: never
    std::optional<std::int64_t> until;  ///< the command ends after a checkpoint of this step or of a later step
    bool newest = false;
    std::vector<std::string> program;
};

void print_evaluate_line(const std::string& text) { fmt::print(stderr, "rueda evaluate: {}\n", text); }

/// Returns the command for a checkpoint: the path replaces each word "{}". If there is no such word, the path is added
/// as the last word.
std::vector<std::string> words_for(const std::vector<std::string>& program, const std::string& path) {
    std::vector<std::string> words = program;
    if (std::find(words.begin(), words.end(), "{}") == words.end()) {
        words.emplace_back("{}");
    }
    std::replace(words.begin(), words.end(), std::string("{}"), path);
    return words;
}

std::string text_of_end(int wait_status) {
    return WIFEXITED(wait_status) ? fmt::format("exit status {}", WEXITSTATUS(wait_status))
                                  : fmt::format("ended by signal {}", WTERMSIG(wait_status));
}

/// Watches the folder, and runs the program for each new checkpoint, one after another. Threads: one.
class Follower {
public:
    explicit Follower(EvaluateOptions options) : options_(std::move(options)) {}

    /// Returns the exit status of the command.
    int run() {
        const Status opened = signals_.open({SIGINT, SIGTERM, SIGHUP, SIGCHLD});
        if (!opened.is_ok()) {
            return refuse_command(opened, kEvaluationFailed);
        }
        last_new_ = Clock::now();
        for (;;) {
            Result<std::vector<FoundCheckpoint>> found = find_checkpoints(options_.folder, last_number_);
            if (!found.is_ok()) {
                return refuse_command(found.status(), kEvaluationFailed);
            }
            say_that_it_waits(found.value());
            if (std::optional<int> status = evaluate_all(std::move(found).value())) {
                return *status;
            }
            if (options_.timeout > 0 && SecondsPassed(Clock::now() - last_new_).count() >= options_.timeout) {
                print_evaluate_line(
                    fmt::format("there was no new checkpoint in {} for {:g} s", options_.folder, options_.timeout));
                return kNothingNew;
            }
            pause();
            if (stopped_by_ != 0) {
                return kSignalled + stopped_by_;
            }
        }
    }

private:
    /// Prints a line if there is nothing to evaluate at the first look. A wrong path would otherwise not be noticed.
    void say_that_it_waits(const std::vector<FoundCheckpoint>& found) {
        if (!std::exchange(has_looked_, true) && found.empty()) {
            std::error_code ignored;
            print_evaluate_line(
                fmt::format("waiting for the first checkpoint in {}{}", options_.folder,
                            std::filesystem::exists(options_.folder, ignored) ? "" : ", which does not exist yet"));
        }
    }

    /// Evaluates the checkpoints. Returns the exit status of the command, or nothing if the command goes on.
    std::optional<int> evaluate_all(std::vector<FoundCheckpoint> found) {
        if (options_.newest && found.size() > 1) {
            found.erase(found.begin(), found.end() - 1);
        }
        for (const FoundCheckpoint& each : found) {
            last_number_ = each.number;
            if (!evaluate(each)) {
                return kEvaluationFailed;
            }
            last_new_ = Clock::now();
            if (stopped_by_ != 0) {
                return kSignalled + stopped_by_;
            }
            if (options_.until && each.step >= *options_.until) {
                return has_failed_ ? kEvaluationFailed : 0;
            }
        }
        return std::nullopt;
    }

    /// Runs the program for this checkpoint. Returns false if the program could not be started. The command then ends,
    /// because the program would not start for the next checkpoint either.
    [[nodiscard]] bool evaluate(const FoundCheckpoint& checkpoint) {
        const std::string name = checkpoint.path.filename().string();
        const Result<KeptCheckpoint> kept = KeptCheckpoint::keep(checkpoint);
        if (!kept.is_ok()) {
            print_evaluate_line(kept.status().message());
            has_failed_ = true;
            return true;
        }
        const Clock::time_point began = Clock::now();
        ChildSpec spec;
        spec.words = words_for(options_.program, kept.value().path().string());
        spec.file = spec.words.front();
        spec.environment = environment_;
        spec.signal_mask = signals_.original_mask();
        const Result<pid_t> child = start_child(spec);
        if (!child.is_ok()) {
            print_evaluate_line(child.status().message());
            return false;
        }
        const std::optional<int> status = wait_for(child.value());
        if (!status) {
            end_leftover_children();
            return true;
        }
        has_failed_ = has_failed_ || *status != 0;
        print_evaluate_line(fmt::format("{}: {} after {:.1f} s", name, text_of_end(*status),
                                        SecondsPassed(Clock::now() - began).count()));
        return true;
    }

    /// Waits until the child has ended, and returns its wait status. SIGCHLD wakes this process. Returns nothing if a
    /// signal asks this command to end.
    std::optional<int> wait_for(pid_t child) {
        for (;;) {
            int status = 0;
            if (::waitpid(child, &status, WNOHANG) == child) {
                return status;
            }
            base::PollSet set;
            add_signals_to(set);
            set.wait_and_dispatch();
            if (stopped_by_ != 0) {
                return std::nullopt;
            }
        }
    }

    /// Waits until it is time to look at the folder again. A signal ends the wait.
    void pause() {
        base::PollSet set;
        add_signals_to(set);
        set.wake_at(Clock::now() + std::chrono::duration_cast<Clock::duration>(SecondsPassed(options_.interval)));
        set.wait_and_dispatch();
    }

    void add_signals_to(base::PollSet& set) {
        set.add(signals_.fd(), POLLIN, [this] {
            while (const std::optional<signalfd_siginfo> signal = signals_.take()) {
                if (signal->ssi_signo != SIGCHLD) {
                    stopped_by_ = static_cast<int>(signal->ssi_signo);
                }
            }
        });
    }

    EvaluateOptions options_;
    Environment environment_ = environment_of_this_process();
    SignalInbox signals_;
    std::uint64_t last_number_ = 0;  ///< the number of the checkpoint that was evaluated or skipped last
    Clock::time_point last_new_;     ///< when the last evaluation ended
    bool has_looked_ = false;
    bool has_failed_ = false;
    int stopped_by_ = 0;  ///< the signal that asked this command to end
};

}  // namespace

int run_evaluate(std::span<const std::string> arguments) {
    CommandApp command(
        {"rueda evaluate", "--follow DIR [options] -- PROGRAM [ARGUMENT ...]",
         "Runs a program for each new checkpoint in the folder of a CheckpointManager, one after the other, beside "
         "the\n"
         "training. The path of the checkpoint replaces the word {} in the arguments, or is the last argument. The\n"
         "training may remove the checkpoint meanwhile: the program gets hard links to its files.",
         "Examples:\n"
         "  rueda evaluate --follow run -- python evaluate.py\n"
         "  rueda evaluate --follow run --newest --until 10000 -- ruedarun -np 2 python evaluate.py --checkpoint {}\n"
         "\n"
         "Exit status: 0 if all evaluations succeeded; 1 if one failed or the program could not be started; 2 if there "
         "was no new checkpoint for the time\n"
         "of --timeout; 3 if rueda was called wrongly; 128 plus the number of the signal that ended it.\n"});
    EvaluateOptions options;
    command.options()
        .add_option("--follow", options.folder, "Folder of the checkpoints; it may not exist yet")
        ->required()
        ->type_name("DIR");
    command.options()
        .add_option("--interval", options.interval, "Seconds between two looks at the folder (default: 2)")
        ->check(CLI::Range(0.01, 1e6))
        ->type_name("S");
    command.options()
        .add_option("--timeout", options.timeout, "End after S seconds without a new checkpoint")
        ->check(CLI::Range(0.01, 1e9))
        ->type_name("S");
    command.options()
        .add_option("--until", options.until, "End after a checkpoint of step N or a later one")
        ->type_name("N");
    command.options().add_flag("--newest", options.newest, "Skip checkpoints for which there is a newer one");
    command.options()
        .add_option("PROGRAM", options.program, "The program and its arguments")
        ->required()
        ->type_name("");
    if (const std::optional<int> status = command.parse(arguments)) {
        return *status;
    }
    return Follower(std::move(options)).run();
}

}  // namespace rueda::launcher
