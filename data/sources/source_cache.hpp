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

/// Gets the bytes of a file from the first reader. Without finish(), the destructor drops all bytes. Threads: one at a
/// time.
class CacheEntry {
public:
    virtual ~CacheEntry() = default;
    [[nodiscard]] virtual Status add(std::span<const std::byte> bytes) = 0;
    /// Call this when all bytes were added. Later readers of the file get them.
    [[nodiscard]] virtual Status finish() = 0;
};

/// Keeps the decompressed bytes of files: the first reader that reads a file to its end leaves a copy, and later
/// readers read the copy. Threads: any thread may call any function.
class SourceCache {
public:
    struct Counts {
        std::int64_t opened = 0;    ///< files whose copy was opened
        std::int64_t refused = 0;   ///< failed attempts to keep a copy
        std::string first_refusal;  ///< the reason of the first failed attempt to keep a copy
        std::int64_t damaged = 0;   ///< copies that could not be read to their end
        std::string first_damage;   ///< what was wrong with the first copy that could not be read to its end
    };

    virtual ~SourceCache() = default;
    /// Opens the copy of the source, or else the source. The result is the same as that of open_stream(). A copy that
    /// cannot be kept is no failure, but is counted. If a copy is damaged, the stream goes on with the bytes of the
    /// source, counts the damage, and drops the copy. `stop` and this object must outlive the stream.
    [[nodiscard]] Result<std::unique_ptr<ByteStream>> open(const Source& source, std::int64_t epoch,
                                                           const StopSignal& stop);
    /// Counts a failed attempt to keep a copy.
    void note_refusal(const Status& reason);
    /// Counts a copy that is damaged.
    void note_damage(const Status& reason);
    [[nodiscard]] Counts counts() const;
    /// Returns the name of the file's copy. If the file cannot be looked at, the name is empty, and no copy is made.
    [[nodiscard]] virtual std::string name_of_copy(const Source& source) const = 0;
    /// Deletes the copy, so that the next reader makes it again.
    virtual void drop(const std::string& copy) = 0;

private:
    /// Opens the copy. The result is a null pointer if there is none.
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

/// Makes the cache for PipelineOptions::cache: kMemoryCache or a folder, which is created if it does not exist. The
/// result is InvalidArgument if files cannot be written there.
[[nodiscard]] Result<std::unique_ptr<SourceCache>> make_source_cache(const std::string& where);
/// Makes a cache in the memory of the process. The cache keeps a copy only as long as `available_bytes` returns at
/// least `reserve_bytes`. `available_bytes` is called by several threads.
[[nodiscard]] std::unique_ptr<SourceCache> make_memory_cache(std::function<std::uint64_t()> available_bytes,
                                                             std::uint64_t reserve_bytes);
[[nodiscard]] Result<std::unique_ptr<SourceCache>> make_folder_cache(const std::string& folder);

}  // namespace rueda::data
