// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace rueda::core {

struct WholeFile {
    WholeFile(std::string its_name, std::function<std::string()> its_text)
        : name(std::move(its_name)), text(std::move(its_text)) {}
    WholeFile(std::string its_name, std::string its_text)
        : name(std::move(its_name)), text([text = std::move(its_text)] { return text; }) {}

    std::string name;                   ///< the file's name, without a folder
    std::function<std::string()> text;  ///< makes the text; the writing thread calls it, because it may take long
};

/// Writes files to a folder, and makes the folder if necessary. A file appears whole or not at all (base::AtomicFile),
/// and replaces an older file of the same name.
///
/// This object has a thread that writes the files. The thread starts with the first file. If the file system hangs,
/// only this thread hangs, and the job can still go on or end.
///
/// Threads: any thread may call the functions. Only one thread may call stop() and the destructor, and no other thread
/// may be in write() at that time.
class FileWriter {
public:
    /// How long write() and stop() wait for the files. write() waits because the files should exist when the program
    /// learns that the job ends.
    static constexpr std::chrono::milliseconds kPatience{1000};

    /// If `folder` is empty, no files are wanted. Several ranks may write files of the same name at the same time.
    /// `rank` becomes part of the name of each unfinished file, so these names differ.
    FileWriter(std::string folder, std::int32_t rank);
    ~FileWriter() { stop(); }
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;

    [[nodiscard]] bool is_wanted() const { return !folder_.empty(); }
    /// Call this only if files are wanted. A new file replaces a file of the same name that still waits to be written.
    /// Each error is reported once: the first call that knows of the error returns a text about it.
    [[nodiscard]] std::optional<std::string> write(std::vector<WholeFile> files);
    /// Ends the thread after it has written all files of earlier calls. If the thread hangs, stop() waits for kPatience
    /// at most. Files of later calls are not written.
    void stop();

private:
    struct Shared;

    void start();

    std::string folder_;
    std::string suffix_;              // the suffix of files that are not complete
    std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
    std::thread thread_;              // protected by the mutex of `shared_`
};

}  // namespace rueda::core
