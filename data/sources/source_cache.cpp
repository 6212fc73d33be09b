// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/sources/source_cache.hpp"

#include <algorithm>
#include <utility>

#include "base/system/memory_limits.hpp"

namespace rueda::data {

namespace {

/// Reads a source, and also passes the bytes to a cache entry, which keeps a copy of them.
class KeepingStream final : public ByteStream {
public:
    KeepingStream(std::unique_ptr<ByteStream> from, std::unique_ptr<CacheEntry> entry, SourceCache& cache)
        : from_(std::move(from)), entry_(std::move(entry)), cache_(cache) {}

    Result<std::size_t> read(std::span<std::byte> into) override {
        auto count = from_->read(into);
        if (entry_ == nullptr) {
            return count;
        }
        if (!count.is_ok()) {
            entry_.reset();
            return count;
        }
        const Status kept = count.value() == 0 ? entry_->finish() : entry_->add(into.first(count.value()));
        if (!kept.is_ok()) {
            cache_.note_refusal(kept);
        }
        if (!kept.is_ok() || count.value() == 0) {
            entry_.reset();
        }
        return count;
    }

private:
    std::unique_ptr<ByteStream> from_;
    std::unique_ptr<CacheEntry> entry_;  ///< null if the copy is complete, or cannot be kept
    SourceCache& cache_;
};

/// Reads a copy. If the copy cannot be read to its end, goes on with the bytes of its source.
class CopyStream final : public ByteStream {
public:
    CopyStream(std::unique_ptr<ByteStream> copy, std::string name, SourceCache& cache, const Source& source,
               std::int64_t epoch, const StopSignal& stop)
        : from_(std::move(copy)), name_(std::move(name)), cache_(cache), source_(source), epoch_(epoch), stop_(stop) {}

    Result<std::size_t> read(std::span<std::byte> into) override {
        auto count = from_->read(into);
        if (!count.is_ok() && !reads_source_) {
            reads_source_ = true;
            RUEDA_RETURN_IF_FAILED(open_source(count.status(), into));
            count = from_->read(into);
        }
        returned_ += count.is_ok() ? count.value() : 0;
        return count;
    }

private:
    /// Opens the source, and skips the bytes that this stream has already returned from the copy. `buffer` is memory
    /// for the skipped bytes.
    Status open_source(const Status& damage, std::span<std::byte> buffer) {
        cache_.note_damage(damage);
        const bool is_same = cache_.name_of_copy(source_) == name_;
        cache_.drop(name_);
        auto stream = open_stream(source_, epoch_, stop_);
        if (!stream.is_ok() || !is_same) {
            return failure(ErrorCode::invalid_argument, "{}; and {}", damage.message(),
                           stream.is_ok() ? "its file was changed since the epoch began; start the job again"
                                          : stream.status().message());
        }
        from_ = std::move(stream).value();
        for (std::uint64_t left = returned_; left > 0;) {
            if (stop_.is_given()) {
                return failure(ErrorCode::aborted, "reading '{}': the pipeline was stopped", source_.name);
            }
            const auto count = from_->read(buffer.first(std::min<std::uint64_t>(buffer.size(), left)));
            RUEDA_RETURN_IF_FAILED(count.status());
            if (count.value() == 0) {
                return failure(ErrorCode::invalid_argument,
                               "{}; and its file has only {} of the bytes before this place", damage.message(),
                               returned_ - left);
            }
            left -= count.value();
        }
        return {};
    }

    std::unique_ptr<ByteStream> from_;
    std::string name_;
    SourceCache& cache_;
    Source source_;
    std::int64_t epoch_;
    const StopSignal& stop_;
    bool reads_source_ = false;
    std::uint64_t returned_ = 0;
};

std::uint64_t available_memory() {
    const auto limits = base::read_memory_limits();
    return limits.is_ok() ? std::min(limits.value().available_bytes, limits.value().address_space_left_bytes)
                          : base::MemoryLimits::kUnlimited;
}

}  // namespace

CacheMemory memory_for_cache() {
    const std::uint64_t available = available_memory();
    // A quarter of the memory is left for the program, because this library does not know how much the program needs.
    return {available, available / 4};
}

Result<std::unique_ptr<ByteStream>> SourceCache::open(const Source& source, std::int64_t epoch,
                                                      const StopSignal& stop) {
    if (source.kind != SourceKind::file) {
        return open_stream(source, epoch, stop);
    }
    const std::string name = name_of_copy(source);
    if (auto copy = name.empty() ? nullptr : find(name); copy != nullptr) {
        const std::lock_guard lock(mutex_);
        ++counts_.opened;
        return std::unique_ptr<ByteStream>(
            std::make_unique<CopyStream>(std::move(copy), name, *this, source, epoch, stop));
    }
    auto stream = open_stream(source, epoch, stop);
    if (!stream.is_ok() || name.empty()) {
        return stream;
    }
    auto entry = begin(name);
    if (!entry.is_ok()) {
        note_refusal(entry.status());
        return stream;
    }
    if (entry.value() == nullptr) {
        return stream;
    }
    return std::unique_ptr<ByteStream>(
        std::make_unique<KeepingStream>(std::move(stream).value(), std::move(entry).value(), *this));
}

void SourceCache::note_refusal(const Status& reason) {
    const std::lock_guard lock(mutex_);
    if (counts_.refused++ == 0) {
        counts_.first_refusal = reason.message();
    }
}

void SourceCache::note_damage(const Status& reason) {
    const std::lock_guard lock(mutex_);
    if (counts_.damaged++ == 0) {
        counts_.first_damage = reason.message();
    }
}

SourceCache::Counts SourceCache::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

Result<std::unique_ptr<SourceCache>> make_source_cache(const std::string& where) {
    if (where == kMemoryCache) {
        return make_memory_cache(available_memory, memory_for_cache().reserve_bytes);
    }
    return make_folder_cache(where);
}

}  // namespace rueda::data
