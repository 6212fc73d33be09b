// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "data/sources/byte_stream.hpp"

namespace rueda::data {

/// The value of PipelineOptions::cache for a cache in the memory of the process.
inline constexpr std::string_view kMemoryCache = "memory";

/// Receives the bytes of a file from the reader that makes the copy. If finish() was not called, the destructor drops
/// all bytes. Threads: one at a time.
class CacheEntry {
public:
    virtual ~CacheEntry() = default;
    [[nodiscard]] virtual Status add(std::span<const std::byte> bytes) = 0;
    /// Call this function when all bytes were added. Later readers of the file then get the copy.
    [[nodiscard]] virtual Status finish() = 0;
};

/// Keeps the decompressed bytes of files: the first reader that reads a file to its end leaves a copy, and later
/// readers read the copy. Threads: any thread may call any function.
class SourceCache {
public:
    struct Counts {
        std::int64_t opened = 0;    ///< number of times that a copy was opened
        std::int64_t refused = 0;   ///< number of failed attempts to keep a copy
        std::string first_refusal;  ///< the reason of the first failed attempt to keep a copy
        std::int64_t damaged = 0;   ///< number of copies that could not be read to their end
        std::string first_damage;   ///< what was wrong with the first copy that could not be read to its end
    };

    virtual ~SourceCache() = default;
    /// Opens the copy of the source, or the source itself if there is no copy. The result is the same as that of
    /// open_stream(). If a copy cannot be kept, this is counted, but is no failure. If a copy is damaged, the stream
    /// goes on with the bytes of the source, counts the damage, and drops the copy. `stop` and this object must outlive
    /// the stream.
    [[nodiscard]] Result<std::unique_ptr<ByteStream>> open(const Source& source, std::int64_t epoch,
                                                           const StopSignal& stop);
    /// Counts a failed attempt to keep a copy.
    void note_refusal(const Status& reason);
    /// Counts a copy that is damaged.
    void note_damage(const Status& reason);
    [[nodiscard]] Counts counts() const;
    /// Returns the name of the file's copy. An empty name means that the file cannot be examined, and that no copy is
    /// made.
    [[nodiscard]] virtual std::string name_of_copy(const Source& source) const = 0;
    /// Deletes the copy, so that the next reader makes it again.
    virtual void drop(const std::string& copy) = 0;

private:
    /// Opens the copy. The result is a null pointer if there is no copy.
    [[nodiscard]] virtual std::unique_ptr<ByteStream> find(const std::string& copy) = 0;
    /// Begins a copy. The result is a null pointer if another reader makes this copy now.
    [[nodiscard]] virtual Result<std::unique_ptr<CacheEntry>> begin(const std::string& copy) = 0;

    mutable std::mutex mutex_;  ///< guards counts_; no other lock is taken while this mutex is held
    Counts counts_;
};

/// How much memory the process may use now, and how much of it a cache must leave to the program.
struct CacheMemory {
    std::uint64_t available_bytes = 0;  ///< base::MemoryLimits::kUnlimited if no limit is known
    std::uint64_t reserve_bytes = 0;
};
[[nodiscard]] CacheMemory memory_for_cache();

/// Makes the cache for PipelineOptions::cache: kMemoryCache or the path of a folder. Creates the folder if it does not
/// exist. The result is InvalidArgument if no files can be written into the folder.
[[nodiscard]] Result<std::unique_ptr<SourceCache>> make_source_cache(const std::string& where);
/// Makes a cache in the memory of the process. Several threads call `available_bytes`, which returns how much memory is
/// available. A copy is kept only while at least `reserve_bytes` remain available.
[[nodiscard]] std::unique_ptr<SourceCache> make_memory_cache(std::function<std::uint64_t()> available_bytes,
                                                             std::uint64_t reserve_bytes);
[[nodiscard]] Result<std::unique_ptr<SourceCache>> make_folder_cache(const std::string& folder);

}  // namespace rueda::data
