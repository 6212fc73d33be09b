// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/output/job_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/text.hpp"
#include "launcher/processes/child_process.hpp"

namespace rueda::launcher {

namespace {

/// If the queue has more bytes than this, ruedarun stops reading the ranks' output, so a rank that writes more must
/// wait. A longer queue would not make the output faster, because a terminal is busy with this many bytes for some
/// time.
constexpr std::size_t kLongestQueue = std::size_t{256} << 10;

/// If poll() has reported that a pipe is writable, a write of this many bytes (PIPE_BUF) does not block.
constexpr std::size_t kSafeWrite = 4096;

constexpr std::size_t kReadSize = std::size_t{64} << 10;

/// The mode of new files. The user's umask restricts it.
constexpr mode_t kFileMode = 0666;

bool same_terminal(int left, int right) {
    struct stat a {};
    struct stat b {};
    return ::isatty(left) == 1 && ::isatty(right) == 1 && ::fstat(left, &a) == 0 && ::fstat(right, &b) == 0 &&
           a.st_rdev == b.st_rdev;
}

/// Describes an errno value, and says what to do about it.
std::string describe_error(int number) {
    const char* const hint = number == EFBIG    ? "; raise the limit of the size of a file (ulimit -f)"
                             : number == ENOSPC ? "; make room on the disk"
                                                : "";
    return fmt::format("{} (errno {}){}", std::generic_category().message(number), number, hint);
}

/// Returns the number of the rank in colour, to be printed before the rank's lines. The colours are readable on dark
/// and on light backgrounds. Colours are off if NO_COLOR is set (https://no-color.org).
std::string prefix_of(int rank, const OutputSink& sink) {
    constexpr std::array<int, 6> kColours = {36, 32, 35, 33, 34, 31};
    const char* no_colour = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): one thread
    if (!sink.is_terminal() || (no_colour != nullptr && *no_colour != '\0')) {
        return fmt::format("[{}] ", rank);
    }
    return fmt::format("\x1b[{}m[{}]\x1b[0m ", kColours[static_cast<std::size_t>(rank) % kColours.size()], rank);
}

}  // namespace

OutputSink::OutputSink(int fd, std::shared_ptr<ProgressBarState> screen, std::function<void(int)> on_failure)
    : fd_(fd), is_terminal_(::isatty(fd) == 1), screen_(std::move(screen)), on_failure_(std::move(on_failure)) {}

void OutputSink::wipe_progress() {
    if (std::exchange(screen_->progress_open, false)) {
        queue_ += "\r\x1b[K";
    }
}

void OutputSink::put_line(std::string_view prefix, std::string_view text) {
    if (broken_) {
        return;
    }
    wipe_progress();
    ++lines_;
    queue_ += prefix;
    queue_ += text;
    queue_ += '\n';
}

void OutputSink::put_progress(std::string_view prefix, std::string_view text) {
    if (broken_ || !is_terminal_) {  // a file does not get each state of a progress bar, but only the last one
        return;
    }
    wipe_progress();
    queue_ += prefix;
    queue_ += text;
    screen_->progress_open = true;
}

void OutputSink::put_bytes(std::string_view bytes) {
    if (!broken_) {
        wipe_progress();
        queue_ += bytes;
    }
}

void OutputSink::close_progress() {
    if (std::exchange(screen_->progress_open, false)) {
        queue_ += '\n';
    }
}

bool OutputSink::is_full() const { return queue_.size() > kLongestQueue; }

void OutputSink::add_to(base::PollSet& set) {
    if (!queue_.empty()) {
        set.add(fd_, POLLOUT, [this] { write_some(); });
    }
}

void OutputSink::write_some() {
    pollfd ready{fd_, POLLOUT, 0};
    std::size_t written = 0;
    while (written < queue_.size() && ::poll(&ready, 1, 0) == 1) {
        const ssize_t got = ::write(fd_, queue_.data() + written, std::min(kSafeWrite, queue_.size() - written));
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        }
        if (got < 0) {
            const int error_number = errno;
            broken_ = true;
            queue_.clear();
            if (error_number != EPIPE) {
                on_failure_(error_number);
            }
            return;
        }
        written += static_cast<std::size_t>(got);
    }
    queue_.erase(0, written);
}

void RankStream::add_to(base::PollSet& set) {
    if (sink_.is_broken()) {
        read_end_.reset();
    }
    if (is_open() && !sink_.is_full()) {
        set.add(read_end_.value(), POLLIN, [this] { read_once(); });
    }
}

bool RankStream::read_once() {
    if (!is_open()) {
        return false;
    }
    std::array<char, kReadSize> buffer;
    const ssize_t got = ::read(read_end_.value(), buffer.data(), buffer.size());
    if (got > 0) {
        show(splitter_.feed({buffer.data(), static_cast<std::size_t>(got)}));
        return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close();
    }
    return false;
}

void RankStream::drain() {
    while (!sink_.is_full() && read_once()) {
    }
}

void RankStream::close() {
    show(splitter_.finish());
    read_end_.reset();
}

void RankStream::show(const std::vector<OutputPiece>& pieces) {
    for (const OutputPiece& piece : pieces) {
        if (piece.kind == OutputPiece::Kind::line) {
            sink_.put_line(prefix_, piece.text);
        } else {
            sink_.put_progress(prefix_, piece.text);
        }
    }
}

JobOutput::JobOutput(const LaunchPlan& plan)
    : plan_(plan),
      output_(STDOUT_FILENO, std::make_shared<ProgressBarState>(),
              [this](int error_number) { tell_failure(STDOUT_FILENO, "standard output", error_number); }),
      error_(STDERR_FILENO,
             same_terminal(STDOUT_FILENO, STDERR_FILENO) ? output_.screen() : std::make_shared<ProgressBarState>(),
             [this](int error_number) { tell_failure(STDERR_FILENO, "standard error", error_number); }),
      streams_(static_cast<std::size_t>(plan.ranks)) {}

/// Reports that writing to standard output or error failed. If standard error itself has failed, the report is lost.
void JobOutput::tell_failure(int fd, const char* stream, int error_number) {
    std::error_code error;
    const std::string file = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), error).string();
    say(
        fmt::format("writing the output of the ranks to {} ({}) failed: {}. From now on output to this stream is lost, "
                    "and a rank that writes to it gets SIGPIPE.",
                    stream, base::quote(file, 200), describe_error(error_number)));
}

Status JobOutput::prepare() {
    if (plan_.output != OutputMode::files) {
        return {};
    }
    std::error_code error;
    std::filesystem::create_directories(plan_.output_dir, error);
    if (error) {
        return failure(ErrorCode::invalid_argument, "--output-dir: the folder {} cannot be created: {}",
                       base::quote(plan_.output_dir), error.message());
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        RUEDA_RETURN_IF_FAILED(open_files(rank));
    }
    return {};
}

Status JobOutput::open_files(int rank) {
    Result<base::UniqueFd> out = open_file(rank, "out");
    Result<base::UniqueFd> err = out.is_ok() ? open_file(rank, "err") : out.status();
    RUEDA_RETURN_IF_FAILED(err.status());
    files_.push_back({std::move(out).value(), std::move(err).value()});
    return {};
}

Result<base::UniqueFd> JobOutput::open_file(int rank, const char* ending) const {
    const std::string name = output_file(plan_.output_dir, rank, ending);
    base::UniqueFd file(::open(
        name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (plan_.attempt == 0 ? O_TRUNC : 0), kFileMode));
    if (!file.is_open()) {
        return failure(ErrorCode::invalid_argument, "--output-dir: {} cannot be written: {}", base::quote(name),
                       std::generic_category().message(errno));
    }
    return file;
}

Result<base::UniqueFd> JobOutput::open_pipe(int rank, OutputSink& sink) {
    Result<OutputPipe> opened = open_output_pipe();
    RUEDA_RETURN_IF_FAILED(opened.status());
    OutputPipe pipe = std::move(opened).value();
    streams_[static_cast<std::size_t>(rank)].push_back(
        std::make_unique<RankStream>(std::move(pipe.read_end), prefix_of(rank, sink), sink));
    return std::move(pipe.write_end);
}

Status JobOutput::make_room(int rank) {
    streams_.resize(std::max(streams_.size(), static_cast<std::size_t>(rank) + 1));
    while (plan_.output == OutputMode::files && files_.size() <= static_cast<std::size_t>(rank)) {
        RUEDA_RETURN_IF_FAILED(open_files(static_cast<int>(files_.size())));
    }
    return {};
}

Result<RankDescriptors> JobOutput::open_rank(int rank) {
    RUEDA_RETURN_IF_FAILED(make_room(rank));
    if (plan_.output == OutputMode::files) {
        return std::move(files_[static_cast<std::size_t>(rank)]);
    }
    if (plan_.output == OutputMode::plain) {
        RankDescriptors own{base::duplicate(STDOUT_FILENO), base::duplicate(STDERR_FILENO)};
        if (!own.standard_output.is_open() || !own.standard_error.is_open()) {
            return system_failure(ErrorCode::resource_exhausted, "fcntl(F_DUPFD_CLOEXEC)");
        }
        return own;
    }
    Result<base::UniqueFd> out = open_pipe(rank, output_);
    Result<base::UniqueFd> err = out.is_ok() ? open_pipe(rank, error_) : out.status();
    RUEDA_RETURN_IF_FAILED(err.status());
    return RankDescriptors{std::move(out).value(), std::move(err).value()};
}

Status JobOutput::open_remote_rank(int rank) {
    RUEDA_RETURN_IF_FAILED(make_room(rank));
    if (plan_.output != OutputMode::files) {
        auto& streams = streams_[static_cast<std::size_t>(rank)];
        streams.push_back(std::make_unique<RankStream>(base::UniqueFd(), prefix_of(rank, output_), output_));
        streams.push_back(std::make_unique<RankStream>(base::UniqueFd(), prefix_of(rank, error_), error_));
    }
    return {};
}

void JobOutput::feed(int rank, bool is_error, std::string_view bytes) {
    const auto index = static_cast<std::size_t>(rank);
    if (plan_.output != OutputMode::files) {
        streams_[index][is_error ? 1 : 0]->feed(bytes);
        return;
    }
    const base::UniqueFd& opened = is_error ? files_[index].standard_error : files_[index].standard_output;
    const int file = opened.value();
    while (opened.is_open() && !bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {  // writing the output file has failed; the job continues without this file
            const int error_number = errno;
            const std::string name = output_file(plan_.output_dir, rank, is_error ? "err" : "out");
            if (failed_files_.insert(name).second) {
                say(fmt::format("--output-dir: writing to {} failed: {}; the job goes on without the rest of this file",
                                base::quote(name, 200), describe_error(error_number)));
            }
            return;
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

void JobOutput::close_remote_rank(int rank) {
    if (plan_.output == OutputMode::files) {
        files_[static_cast<std::size_t>(rank)] = {};
    }
    for (auto& stream : streams_[static_cast<std::size_t>(rank)]) {
        stream->close();
    }
}

void JobOutput::say(std::string_view line) {
    own_lines_ += error_.is_broken() ? 0U : 1U;
    error_.put_line("ruedarun: ", line);
}

void JobOutput::add_to(base::PollSet& set) {
    for (auto& streams : streams_) {
        for (auto& stream : streams) {
            stream->add_to(set);
        }
    }
    output_.add_to(set);
    error_.add_to(set);
}

void JobOutput::drain_rank(int rank) {
    if (rank >= 0 && static_cast<std::size_t>(rank) < streams_.size()) {
        for (auto& stream : streams_[static_cast<std::size_t>(rank)]) {
            stream->drain();
        }
    }
}

bool JobOutput::all_closed() const {
    for (const auto& streams : streams_) {
        for (const auto& stream : streams) {
            if (stream->is_open()) {
                return false;
            }
        }
    }
    return true;
}

void JobOutput::close_all() {
    for (auto& streams : streams_) {
        for (auto& stream : streams) {
            if (stream->is_open()) {
                stream->close();
            }
        }
    }
}

bool JobOutput::all_written() const { return output_.is_empty() && error_.is_empty(); }

void JobOutput::finish() {
    output_.close_progress();
    error_.close_progress();
}

}  // namespace rueda::launcher
