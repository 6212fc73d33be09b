// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/shared_event.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

namespace rueda::tests::gpu {

/// The memory is all zero at first. Slot n % kSlots describes the end of record n. When record n + kSlots ends, it
/// overwrites this slot.
struct SharedEvent::Page {
    static constexpr std::uint64_t kSlots = 64;
    static constexpr std::uint32_t kEntries = 256;
    struct Entry {
        Actor actor;
        Time time;
    };
    struct Slot {
        /// Which recording of the event has completed (recordings are counted). complete() stores the number with
        /// release, and is_complete() loads it with acquire.
        std::atomic<std::uint64_t> completed;
        std::uint32_t count;
        Entry entries[kEntries];
    };
    std::atomic<std::uint64_t> recorded;  ///< the number of the last record
    Slot slots[kSlots];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::shared_ptr<SharedEvent> SharedEvent::create() {
    const int file = ::memfd_create("gpu_stand_in_event", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, sizeof(Page)) != 0) {
        return nullptr;
    }
    return open(file);
}

std::shared_ptr<SharedEvent> SharedEvent::open(int file) {
    struct stat status {};
    if (::fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) != sizeof(Page)) {
        ::close(file);
        return nullptr;
    }
    void* mapping = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED) {
        ::close(file);
        return nullptr;
    }
    return std::shared_ptr<SharedEvent>(new SharedEvent(file, static_cast<Page*>(mapping)));
}

SharedEvent::~SharedEvent() {
    ::munmap(page_, sizeof(Page));
    ::close(file_);
}

// The numbers of records need no stronger order than relaxed. If a wait in another process must come after a record,
// the program itself must send a message from one process to the other.
std::uint64_t SharedEvent::record() { return page_->recorded.fetch_add(1, std::memory_order_relaxed) + 1; }
std::uint64_t SharedEvent::last_record() const { return page_->recorded.load(std::memory_order_relaxed); }

void SharedEvent::complete(std::uint64_t number, const Clock& clock) {
    Page::Slot& slot = page_->slots[number % Page::kSlots];
    slot.count = 0;
    for (const auto& [actor, time] : clock.times()) {
        if (slot.count < Page::kEntries) {
            slot.entries[slot.count++] = {actor, time};
        }
    }
    slot.completed.store(number, std::memory_order_release);
}

bool SharedEvent::is_complete(std::uint64_t number) const {
    return page_->slots[number % Page::kSlots].completed.load(std::memory_order_acquire) >= number;
}

void SharedEvent::join_clock(std::uint64_t number, Clock& clock) const {
    const Page::Slot& slot = page_->slots[number % Page::kSlots];
    for (std::uint32_t i = 0; i < slot.count; ++i) {
        clock.raise(slot.entries[i].actor, slot.entries[i].time);
    }
}

}  // namespace rueda::tests::gpu
