// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace deepfm {

/// Writes the loss of each step as a CSV file with the columns step, epoch and loss. A failure to write does not stop
/// the training: close() reports it at the end. Without a file, all functions do nothing.
class Curve {
public:
    /// Opens the file. If the run begins at step 0, an old curve in the file is replaced. Otherwise the rows of the
    /// steps before `first_step` stay, and the new rows follow them. Throws InvalidArgument if the file cannot be
    /// opened, or contains anything other than a curve.
    void open(const std::filesystem::path& path, std::int64_t first_step);

    void add(std::int64_t step, std::int64_t epoch, double loss);
    /// Hands the rows to the operating system, so that they reach the file even if this process is killed.
    void flush();
    /// Closes the file. Throws ResourceExhausted if a row was not written.
    void close();

private:
    struct Closer {
        void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    };

    void keep_error(bool failed) noexcept;

    std::filesystem::path path_;
    std::unique_ptr<std::FILE, Closer> file_;
    int error_ = 0;  ///< errno of the first failure
};

}  // namespace deepfm
