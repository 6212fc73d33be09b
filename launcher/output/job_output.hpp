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

#include "base/network/poll_set.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/output/line_splitter.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// The descriptors to which a rank writes its output.
struct RankDescriptors {
    base::UniqueFd standard_output;
    base::UniqueFd standard_error;
};

/// Whether the last line of the terminal is a progress bar. Standard output and standard error share this state,
/// because they often share a terminal.
struct ProgressBarState {
    bool progress_open = false;
};

/// ruedarun's own standard output or error. Text goes into a queue, and is written only when a write does not block.
/// Otherwise a reader that pauses, such as a pager, would keep ruedarun from reacting to Ctrl-C.
class OutputSink {
public:
    /// `on_failure` is called once, with the errno of the first write that fails. It is not called if a pipe's reader
    /// has closed the pipe.
    OutputSink(int fd, std::shared_ptr<ProgressBarState> screen, std::function<void(int)> on_failure);

    void put_line(std::string_view prefix, std::string_view text);
    void put_progress(std::string_view prefix, std::string_view text);
    void put_bytes(std::string_view bytes);
    void add_to(base::PollSet& set);
    /// Whether the reader has closed the pipe, or the file cannot grow any more. In this case a rank that writes must
    /// get SIGPIPE, as if it wrote directly to this pipe or file.
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

/// Reads one output stream of one rank, and gives its lines to an OutputSink.
class RankStream {
public:
    RankStream(base::UniqueFd read_end, std::string prefix, OutputSink& sink)
        : read_end_(std::move(read_end)), prefix_(std::move(prefix)), sink_(sink) {}

    void add_to(base::PollSet& set);
    /// Reads all output that the rank has written until now.
    void drain();
    /// Handles output that a supervisor (the parent of a rank under mpirun) has sent.
    void feed(std::string_view bytes) { show(splitter_.feed(bytes)); }
    /// Stops reading. Prints the last line even if it is unfinished.
    void close();
    [[nodiscard]] bool is_open() const { return read_end_.is_open(); }

private:
    /// Reads once. Returns false if nothing can be read now, or if the stream has ended.
    bool read_once();
    void show(const std::vector<OutputPiece>& pieces);

    base::UniqueFd read_end_;
    std::string prefix_;
    OutputSink& sink_;
    LineSplitter splitter_;
};

/// Prints the output of the ranks and ruedarun's own lines, or writes the ranks' output to files. Threads: only one
/// thread may use an object.
class JobOutput {
public:
    explicit JobOutput(const LaunchPlan& plan);

    /// Creates and opens the files, if the output goes to files.
    [[nodiscard]] Status prepare();
    /// Returns the descriptors for the output of a rank that is about to be started. Call it once for each rank.
    [[nodiscard]] Result<RankDescriptors> open_rank(int rank);
    /// Prepares the output of a rank on another host. The caller passes the rank's output to feed().
    [[nodiscard]] Status open_remote_rank(int rank);
    void feed(int rank, bool is_error, std::string_view bytes);
    void close_remote_rank(int rank);
    /// Whether ranks should pause their output, because the reader of ruedarun's output is slow.
    [[nodiscard]] bool is_full() const { return output_.is_full() || error_.is_full(); }
    /// Whether this stream of the ranks has no reader any more. If so, the ranks must get SIGPIPE.
    [[nodiscard]] bool has_lost_reader(bool is_error) const {
        return plan_.output != OutputMode::files && (is_error ? error_ : output_).is_broken();
    }
    /// Prints a message of ruedarun itself on standard error.
    void say(std::string_view line);
    /// The number of texts on standard error that came from ranks or from mpirun. Texts of ruedarun itself are not
    /// counted.
    [[nodiscard]] std::size_t foreign_errors() const { return error_.lines() - own_lines_ + passed_on_; }
    /// Writes text of another program (mpirun) to standard error without changes.
    void pass_on_error(std::string_view bytes) {
        ++passed_on_;
        error_.put_bytes(bytes);
    }

    void add_to(base::PollSet& set);
    /// Reads all output that the rank has written until now. This output must be printed before the line about the
    /// rank's end.
    void drain_rank(int rank);
    /// Whether the output streams of all ranks have ended.
    [[nodiscard]] bool all_closed() const;
    /// Prints the rest of the output and stops reading. Streams may still be open, because descendants of ranks may
    /// still run.
    void close_all();
    [[nodiscard]] bool all_written() const;
    void finish();

private:
    void tell_failure(int fd, const char* stream, int error_number);
    [[nodiscard]] Result<base::UniqueFd> open_pipe(int rank, OutputSink& sink);
    [[nodiscard]] Status open_files(int rank);
    /// An elastic job starts more workers than the plan has ranks. It numbers them in ascending order.
    [[nodiscard]] Status make_room(int rank);
    [[nodiscard]] Result<base::UniqueFd> open_file(int rank, const char* ending) const;

    const LaunchPlan& plan_;
    OutputSink output_;
    OutputSink error_;
    std::size_t own_lines_ = 0;
    std::size_t passed_on_ = 0;
    std::vector<RankDescriptors> files_;                             ///< the output files of the ranks, indexed by
                                                                     ///< rank; open_rank() moves a rank's files out
    std::vector<std::vector<std::unique_ptr<RankStream>>> streams_;  ///< indexed by rank
    std::set<std::string> failed_files_;                             ///< errors that were already reported
};

}  // namespace rueda::launcher
