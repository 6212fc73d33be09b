// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/shared_event.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

namespace rueda::tests::gpu {

/// The memory is all zero at first.
struct SharedEvent::Page {
    static constexpr std::uint64_t kMagic = 0x72756564612d6576;
    static constexpr std::uint32_t kEntries = 512;
    struct Entry {
        Actor actor;
        Time time;
    };
    std::atomic<std::uint64_t> magic;
    std::atomic<std::uint64_t> recorded;   ///< the number of the last record
    std::atomic<std::uint64_t> completed;  ///< release by complete(); partner: acquire in is_complete()
    std::atomic<std::uint32_t> count;      ///< entries that are written; release and acquire
    Entry entries[kEntries];               ///< only ever appended, so a reader needs no lock
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::shared_ptr<SharedEvent> SharedEvent::create() {
    const int file = ::memfd_create("gpu_stand_in_event", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, sizeof(Page)) != 0) {
        return nullptr;
    }
    void* mapping = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    auto* page = static_cast<Page*>(mapping);
    page->magic.store(Page::kMagic, std::memory_order_relaxed);
    return std::shared_ptr<SharedEvent>(new SharedEvent(file, page));
}

std::shared_ptr<SharedEvent> SharedEvent::open(int file) {
    struct stat status {};
    if (::fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) != sizeof(Page)) {
        ::close(file);
        return nullptr;
    }
    void* mapping = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return std::shared_ptr<SharedEvent>(new SharedEvent(file, static_cast<Page*>(mapping)));
}

SharedEvent::~SharedEvent() {
    ::munmap(page_, sizeof(Page));
    ::close(file_);
}

// Relaxed suffices for the numbers of records: the program orders a record before a wait in another process by its own
// messages.
std::uint64_t SharedEvent::record() { return page_->recorded.fetch_add(1, std::memory_order_relaxed) + 1; }
std::uint64_t SharedEvent::last_record() const { return page_->recorded.load(std::memory_order_relaxed); }

void SharedEvent::complete(std::uint64_t number, const Clock& clock) {
    // An entry is never changed. A reader takes all entries, so the last one of an actor counts.
    std::uint32_t count = page_->count.load(std::memory_order_relaxed);
    Clock known;
    for (std::uint32_t i = 0; i < count; ++i) {
        known.raise(page_->entries[i].actor, page_->entries[i].time);
    }
    for (const auto& [actor, time] : clock.times()) {
        if (known.at(actor) < time && count < Page::kEntries) {
            page_->entries[count++] = {actor, time};
        }
    }
    page_->count.store(count, std::memory_order_release);
    page_->completed.store(number, std::memory_order_release);
}

bool SharedEvent::is_complete(std::uint64_t number) const {
    return page_->completed.load(std::memory_order_acquire) >= number;
}

void SharedEvent::join_clock(Clock& clock) const {
    const std::uint32_t count = page_->count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
        clock.raise(page_->entries[i].actor, page_->entries[i].time);
    }
}

}  // namespace rueda::tests::gpu
