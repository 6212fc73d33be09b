// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/output/line_splitter.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/processes/poll_set.hpp"

namespace rueda::launcher {

/// The descriptors for the output of a rank.
struct RankDescriptors {
    base::UniqueFd standard_output;
    base::UniqueFd standard_error;
};

/// Whether the last line of the terminal is a progress bar. Standard output and error often share one terminal.
struct ProgressBarState {
    bool progress_open = false;
};

/// ruedarun's own standard output or error. Text is put into a queue, and written only when the write does not block.
/// Otherwise a reader that pauses, such as a pager, would prevent ruedarun from reacting to Ctrl-C.
class OutputSink {
public:
    /// `on_failure` is called once with the errno of the first write that fails, except if the reader of a pipe has
    /// closed it.
    OutputSink(int fd, std::shared_ptr<ProgressBarState> screen, std::function<void(int)> on_failure);

    void put_line(std::string_view prefix, std::string_view text);
    void put_progress(std::string_view prefix, std::string_view text);
    void put_bytes(std::string_view bytes);
    void add_to(PollSet& set);
    /// Whether the reader has closed the pipe, or the file cannot grow any more. If so, a rank that writes must get
    /// SIGPIPE, as if it wrote to this pipe or file directly.
    [[nodiscard]] bool is_broken() const { return broken_; }
    [[nodiscard]] bool is_empty() const { return queue_.empty(); }
    [[nodiscard]] bool is_full() const;
    [[nodiscard]] bool is_terminal() const { return is_terminal_; }
    [[nodiscard]] const std::shared_ptr<ProgressBarState>& screen() const { return screen_; }
    /// Ends the line of a progress bar.
    void close_progress();
    [[nodiscard]] std::size_t lines() const { return lines_; }

private:
    void wipe_progress();
    void write_some();

    int fd_;
    bool is_terminal_;
    std::shared_ptr<ProgressBarState> screen_;
    std::function<void(int)> on_failure_;
    std::string queue_;
    std::size_t lines_ = 0;  ///< the number of lines that were put into the queue
    bool broken_ = false;
};

/// Reads one stream of one rank and puts its lines into a sink.
class RankStream {
public:
    RankStream(base::UniqueFd read_end, std::string prefix, OutputSink& sink)
        : read_end_(std::move(read_end)), prefix_(std::move(prefix)), sink_(sink) {}

    void add_to(PollSet& set);
    /// Reads the output that the rank has written so far.
    void drain();
    /// Processes output that arrived from a supervisor.
    void feed(std::string_view bytes) { show(splitter_.feed(bytes)); }
    /// Stops reading. If the last line is unfinished, it is printed too.
    void close();
    [[nodiscard]] bool is_open() const { return read_end_.is_open(); }

private:
    /// Reads once. Returns false if there is nothing to read now, or if the stream has ended.
    bool read_once();
    void show(const std::vector<OutputPiece>& pieces);

    base::UniqueFd read_end_;
    std::string prefix_;
    OutputSink& sink_;
    LineSplitter splitter_;
};

/// Prints the output of the ranks and ruedarun's own lines, or writes the output into files. Threads: one.
class JobOutput {
public:
    explicit JobOutput(const LaunchPlan& plan);

    /// If the output goes to files, creates and opens them.
    [[nodiscard]] Status prepare();
    /// Returns the descriptors for the output of a rank that is about to be started. Call it once for each rank.
    [[nodiscard]] Result<RankDescriptors> open_rank(int rank);
    /// Does the same for a rank on another host. The caller must pass this rank's output to feed().
    void open_remote_rank(int rank);
    void feed(int rank, bool is_error, std::string_view bytes);
    void close_remote_rank(int rank);
    /// Whether the ranks should wait with more output, because the reader of ruedarun's output is slow.
    [[nodiscard]] bool is_full() const { return output_.is_full() || error_.is_full(); }
    /// Whether this stream of the ranks has no reader any more. If so, the ranks must get SIGPIPE.
    [[nodiscard]] bool has_lost_reader(bool is_error) const {
        return plan_.output != OutputMode::files && (is_error ? error_ : output_).is_broken();
    }
    /// Prints a message of ruedarun itself on standard error.
    void say(std::string_view line);
    /// The number of texts on standard error that are not from ruedarun itself: lines of the ranks, and texts of
    /// mpirun.
    [[nodiscard]] std::size_t foreign_errors() const { return error_.lines() - own_lines_ + passed_on_; }
    /// Writes text of another program (mpirun) to standard error without changes.
    void pass_on_error(std::string_view bytes) {
        ++passed_on_;
        error_.put_bytes(bytes);
    }

    void add_to(PollSet& set);
    /// Reads the output that the rank has written so far, so that it is printed before the line about the rank's end.
    void drain_rank(int rank);
    /// All ranks' streams have ended.
    [[nodiscard]] bool all_closed() const;
    /// Stops reading all streams, after printing the rest of their output. Some streams may still be open in
    /// descendants of ranks.
    void close_all();
    [[nodiscard]] bool all_written() const;
    void finish();

private:
    void tell_failure(int fd, const char* stream, int error_number);
    [[nodiscard]] Result<base::UniqueFd> open_pipe(int rank, OutputSink& sink);
    [[nodiscard]] Result<base::UniqueFd> open_file(int rank, const char* ending) const;

    const LaunchPlan& plan_;
    OutputSink output_;
    OutputSink error_;
    std::size_t own_lines_ = 0;
    std::size_t passed_on_ = 0;
    std::vector<RankDescriptors> files_;                             ///< by rank: the opened files, until open_rank()
                                                                     ///< returns them
    std::vector<std::vector<std::unique_ptr<RankStream>>> streams_;  ///< indexed by rank
    std::set<std::string> failed_files_;                             ///< the errors that were already reported by a
                                                                     ///< line
};

}  // namespace rueda::launcher
