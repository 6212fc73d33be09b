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

/// What a rank writes to.
struct RankDescriptors {
    base::UniqueFd standard_output;
    base::UniqueFd standard_error;
};

/// Whether a progress bar stands in the last line of the terminal. Standard output and error often share one.
struct Screen {
    bool progress_open = false;
};

/// One of ruedarun's own two streams. Text is queued and written only when it does not block, for a reader that pauses
/// (a pager) must not keep ruedarun from seeing Ctrl-C.
class OutputSink {
public:
    /// `on_failure` hears once, with its errno, of a write that failed, unless the reader of a pipe has gone.
    OutputSink(int fd, std::shared_ptr<Screen> screen, std::function<void(int)> on_failure);

    void put_line(std::string_view prefix, std::string_view text);
    void put_progress(std::string_view prefix, std::string_view text);
    void put_bytes(std::string_view bytes);
    void add_to(PollSet& set);
    /// The reader has gone, or the file takes no more: whoever writes next is to get SIGPIPE, as if there were no
    /// ruedarun between.
    [[nodiscard]] bool is_broken() const { return broken_; }
    [[nodiscard]] bool is_empty() const { return queue_.empty(); }
    [[nodiscard]] bool is_full() const;
    [[nodiscard]] bool is_terminal() const { return is_terminal_; }
    [[nodiscard]] const std::shared_ptr<Screen>& screen() const { return screen_; }
    /// A progress bar that stands alone gets its newline.
    void close_progress();
    [[nodiscard]] std::size_t lines() const { return lines_; }

private:
    void wipe_progress();
    void write_some();

    int fd_;
    bool is_terminal_;
    std::shared_ptr<Screen> screen_;
    std::function<void(int)> on_failure_;
    std::string queue_;
    std::size_t lines_ = 0;  ///< that were put
    bool broken_ = false;
};

/// One stream of one rank, on its way to a sink.
class RankStream {
public:
    RankStream(base::UniqueFd read_end, std::string prefix, OutputSink& sink)
        : read_end_(std::move(read_end)), prefix_(std::move(prefix)), sink_(sink) {}

    void add_to(PollSet& set);
    /// Takes what is there now.
    void drain();
    /// Takes what came another way.
    void feed(std::string_view bytes) { show(splitter_.feed(bytes)); }
    /// Takes no more: what was read of an unfinished line is shown.
    void close();
    [[nodiscard]] bool is_open() const { return read_end_.is_open(); }

private:
    /// False where nothing is there now, or never more.
    bool read_once();
    void show(const std::vector<OutputPiece>& pieces);

    base::UniqueFd read_end_;
    std::string prefix_;
    OutputSink& sink_;
    LineSplitter splitter_;
};

/// Where the ranks' output goes, and ruedarun's own lines between it. Threads: one.
class JobOutput {
public:
    explicit JobOutput(const LaunchPlan& plan);

    /// Creates and opens the files, where there are some.
    [[nodiscard]] Status prepare();
    /// The descriptors to start a rank with; once for each rank.
    [[nodiscard]] Result<RankDescriptors> open_rank(int rank);
    /// The same for a rank on another host, whose output comes through feed().
    void open_remote_rank(int rank);
    void feed(int rank, bool is_error, std::string_view bytes);
    void close_remote_rank(int rank);
    /// Who brings more is to wait.
    [[nodiscard]] bool is_full() const { return output_.is_full() || error_.is_full(); }
    /// Nobody reads what the ranks write there: they are to get SIGPIPE.
    [[nodiscard]] bool has_lost_reader(bool is_error) const {
        return plan_.output != OutputMode::files && (is_error ? error_ : output_).is_broken();
    }
    /// A line of ruedarun's own on standard error.
    void say(std::string_view line);
    /// Grows with everything on standard error that is not ruedarun's: lines of the ranks, texts of mpirun.
    [[nodiscard]] std::size_t foreign_errors() const { return error_.lines() - own_lines_ + passed_on_; }
    /// Text of another program (mpirun) for standard error, as it is.
    void pass_on_error(std::string_view bytes) {
        ++passed_on_;
        error_.put_bytes(bytes);
    }

    void add_to(PollSet& set);
    /// Takes what the rank has written until now, so that its last words stand before the line about its end.
    void drain_rank(int rank);
    /// All ranks' streams have ended.
    [[nodiscard]] bool all_closed() const;
    /// Shows what is left of streams that descendants still hold open, and listens to them no more.
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
    std::vector<RankDescriptors> files_;                             ///< by rank, until they are handed out
    std::vector<std::vector<std::unique_ptr<RankStream>>> streams_;  ///< by rank
    std::set<std::string> failed_files_;                             ///< of which a line has been said
};

}  // namespace rueda::launcher
