// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The cache in the memory of the process.
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

namespace {

/// The bytes lie in pieces of this size, so that a growing copy is not moved in memory. Before each new piece, the
/// cache asks how much memory is available, which takes about 50 µs.
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

/// The bytes of a file. They do not change once the copy is complete.
struct KeptBytes {
    std::vector<std::unique_ptr<std::byte[]>> pieces;
    std::size_t size = 0;
};

class KeptStream final : public ByteStream {
public:
    explicit KeptStream(std::shared_ptr<const KeptBytes> bytes) : bytes_(std::move(bytes)) {}

    Result<std::size_t> read(std::span<std::byte> into) override {
        const std::size_t in_piece = place_ % kPieceBytes;
        const std::size_t count = std::min({into.size(), bytes_->size - place_, kPieceBytes - in_piece});
        if (count > 0) {
            std::memcpy(into.data(), bytes_->pieces[place_ / kPieceBytes].get() + in_piece, count);
        }
        place_ += count;
        return count;
    }

private:
    std::shared_ptr<const KeptBytes> bytes_;
    std::size_t place_ = 0;
};

class MemoryCache final : public SourceCache {
public:
    MemoryCache(std::function<std::uint64_t()> available_bytes, std::uint64_t reserve_bytes)
        : available_bytes_(std::move(available_bytes)), reserve_bytes_(reserve_bytes) {}

    /// Returns a failure if there is not enough memory for another piece.
    Status check_room() const {
        const std::uint64_t available = available_bytes_();
        if (available >= kPieceBytes && available - kPieceBytes >= reserve_bytes_) {
            return {};
        }
        return failure(
            ErrorCode::resource_exhausted,
            "{} of memory are available, and {} of them are left to the program; cache the files in a folder",
            base::format_bytes(available), base::format_bytes(reserve_bytes_));
    }
    void add(const std::string& name, std::shared_ptr<const KeptBytes> bytes) {
        const std::lock_guard lock(mutex_);
        files_[name] = std::move(bytes);
    }

    std::string name_of_copy(const Source& source) const override { return source.name; }
    void drop(const std::string& copy) override {
        const std::lock_guard lock(mutex_);
        files_.erase(copy);
    }

private:
    std::unique_ptr<ByteStream> find(const std::string& copy) override {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find(copy);
        return found == files_.end() ? nullptr : std::make_unique<KeptStream>(found->second);
    }
    Result<std::unique_ptr<CacheEntry>> begin(const std::string& copy) override;

    const std::function<std::uint64_t()> available_bytes_;
    const std::uint64_t reserve_bytes_;
    std::mutex mutex_;  ///< guards files_; no other lock is taken while this mutex is held
    std::unordered_map<std::string, std::shared_ptr<const KeptBytes>> files_;
};

class MemoryEntry final : public CacheEntry {
public:
    MemoryEntry(MemoryCache& cache, std::string name) : cache_(cache), name_(std::move(name)) {}

    Status add(std::span<const std::byte> bytes) override {
        while (!bytes.empty()) {
            const std::size_t in_piece = bytes_->size % kPieceBytes;
            if (in_piece == 0) {
                RUEDA_RETURN_IF_FAILED(cache_.check_room());
                bytes_->pieces.emplace_back(new std::byte[kPieceBytes]);  // not initialised
            }
            const std::size_t count = std::min(bytes.size(), kPieceBytes - in_piece);
            std::memcpy(bytes_->pieces.back().get() + in_piece, bytes.data(), count);
            bytes_->size += count;
            bytes = bytes.subspan(count);
        }
        return {};
    }
    Status finish() override {
        cache_.add(name_, std::move(bytes_));
        return {};
    }

private:
    MemoryCache& cache_;
    std::string name_;
    std::shared_ptr<KeptBytes> bytes_ = std::make_shared<KeptBytes>();
};

Result<std::unique_ptr<CacheEntry>> MemoryCache::begin(const std::string& copy) {
    return std::unique_ptr<CacheEntry>(std::make_unique<MemoryEntry>(*this, copy));
}

}  // namespace

std::unique_ptr<SourceCache> make_memory_cache(std::function<std::uint64_t()> available_bytes,
                                               std::uint64_t reserve_bytes) {
    return std::make_unique<MemoryCache>(std::move(available_bytes), reserve_bytes);
}

}  // namespace rueda::data
