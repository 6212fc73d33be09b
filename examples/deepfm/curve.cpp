// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "curve.hpp"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "rueda/error.hpp"

namespace deepfm {
namespace {

constexpr std::string_view kHeader = "step,epoch,loss\n";

[[noreturn]] void refuse_curve(const std::filesystem::path& path, const std::string& what) {
    throw rueda::InvalidArgument("--curve " + path.string() + " " + what);
}

std::string text_of(int error) { return std::generic_category().message(error); }

/// Returns the step of a row, or nothing if the row is not complete.
std::optional<std::int64_t> step_of(std::string_view row) {
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), step);
    const bool complete = error == std::errc{} && end != row.data() + row.size() && *end == ',';
    return complete ? std::optional(step) : std::nullopt;
}

/// Returns the length of the header and of the rows before `first_step`. A job that is killed can leave a last row
/// that is not complete; this row is not counted.
std::size_t length_to_keep(const std::filesystem::path& path, std::int64_t first_step) {
    std::ifstream file(path, std::ios::binary);
    std::string row;
    std::size_t length = 0;
    while (std::getline(file, row) && !file.eof()) {  // eof() is true if the row does not end with a newline
        if (length == 0 && row + "\n" != kHeader) {
            refuse_curve(path, "exists, but its first line is not 'step,epoch,loss'; name another file");
        }
        if (length > 0 && step_of(row).value_or(first_step) >= first_step) {
            break;
        }
        length += row.size() + 1;
    }
    return length;
}

}  // namespace

void Curve::open(const std::filesystem::path& path, std::int64_t first_step) {
    path_ = path;
    std::error_code error;
    std::size_t kept = 0;
    if (first_step > 0 && std::filesystem::is_regular_file(path, error)) {
        kept = length_to_keep(path, first_step);
        std::filesystem::resize_file(path, kept, error);
        if (error) {
            refuse_curve(path, "cannot be shortened to the rows before step " + std::to_string(first_step) + ": " +
                                   error.message());
        }
    }
    file_.reset(std::fopen(path.c_str(), kept > 0 ? "ae" : "we"));
    if (!file_) {
        refuse_curve(path,
                     "cannot be opened: " + text_of(errno) + "; name a file in a folder that this user may write to");
    }
    if (kept == 0) {
        keep_error(std::fwrite(kHeader.data(), 1, kHeader.size(), file_.get()) != kHeader.size());
    }
}

void Curve::add(std::int64_t step, std::int64_t epoch, double loss) {
    if (!file_) {
        return;
    }
    keep_error(std::fprintf(file_.get(), "%lld,%lld,%.17g\n", static_cast<long long>(step),
                            static_cast<long long>(epoch), loss) < 0);
}

void Curve::flush() {
    if (file_) {
        keep_error(std::fflush(file_.get()) != 0);
    }
}

void Curve::close() {
    if (!file_) {
        return;
    }
    flush();
    keep_error(std::fclose(file_.release()) != 0);
    if (error_ != 0) {
        throw rueda::ResourceExhausted("writing --curve " + path_.string() + ": " + text_of(error_) +
                                       "; rows of the curve are missing, but the training is complete");
    }
}

void Curve::keep_error(bool failed) noexcept {
    if (failed && error_ == 0) {
        error_ = errno;
    }
}

}  // namespace deepfm
