// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/nccl/region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace rueda::tests::gpu {
namespace {

constexpr std::uint64_t kIdMagic = 0x72756564612d6964;

struct IdContents {
    std::uint64_t magic = kIdMagic;
    std::uint64_t inode = 0;
    std::int32_t process = 0;
    std::int32_t file = 0;
};
static_assert(sizeof(IdContents) <= sizeof(NcclUniqueId));

std::uint64_t inode_of(int file) {
    struct stat status {};
    return ::fstat(file, &status) == 0 ? status.st_ino : 0;
}

/// Opens a file of another process. Returns -1 if the file does not exist any more.
int open_of(int process, int file, std::uint64_t inode) {
    const int opened = ::open(fmt::format("/proc/{}/fd/{}", process, file).c_str(), O_RDWR | O_CLOEXEC);
    if (opened >= 0 && inode_of(opened) != inode) {
        ::close(opened);
        return -1;
    }
    return opened;
}

bool write_all(int file, const std::vector<std::byte>& bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t count = ::pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (count <= 0) {
            return false;
        }
        done += static_cast<std::size_t>(count);
    }
    return true;
}

}  // namespace

bool Box::post(std::uint64_t number, const OperationHeader& header, const std::vector<std::byte>& bytes, int first,
               int end) {
    Slot& slot = slots_[(number - 1) % kSlots];
    if (number > kSlots) {
        for (int reader = first; reader < end; ++reader) {
            if (!is_consumed(number - kSlots, reader)) {
                return false;
            }
        }
    }
    if (slot.file > 0) {
        ::close(slot.file - 1);
        slot.file = 0;
    }
    const int file = ::memfd_create("gpu_stand_in_message", MFD_CLOEXEC);
    if (file < 0 || !write_all(file, bytes)) {
        return false;
    }
    slot = {.header = header, .process = ::getpid(), .file = file + 1, .inode = inode_of(file), .bytes = bytes.size()};
    posted_.store(number, std::memory_order_release);
    return true;
}

bool Box::has(std::uint64_t number) const { return posted_.load(std::memory_order_acquire) >= number; }

OperationHeader Box::header(std::uint64_t number) const { return slots_[(number - 1) % kSlots].header; }

std::optional<std::vector<std::byte>> Box::read(std::uint64_t number) const {
    const Slot& slot = slots_[(number - 1) % kSlots];
    const int file = open_of(slot.process, slot.file - 1, slot.inode);
    if (file < 0) {
        return std::nullopt;
    }
    std::vector<std::byte> bytes(slot.bytes);
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t count = ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (count <= 0) {
            break;
        }
        done += static_cast<std::size_t>(count);
    }
    ::close(file);
    return done == bytes.size() ? std::optional(std::move(bytes)) : std::nullopt;
}

void Box::consume(std::uint64_t number, int reader) { consumed_[reader].store(number, std::memory_order_release); }

bool Box::is_consumed(std::uint64_t number, int reader) const {
    return consumed_[reader].load(std::memory_order_acquire) >= number;
}

bool Box::is_empty(int reader) const { return is_consumed(posted_.load(std::memory_order_acquire), reader); }

void Box::close() {
    for (Slot& slot : slots_) {
        if (slot.file > 0 && slot.process == ::getpid()) {
            ::close(slot.file - 1);
            slot.file = 0;
        }
    }
}

std::optional<NcclUniqueId> Region::create() {
    const int file = ::memfd_create("gpu_stand_in_nccl", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, sizeof(Region)) != 0) {
        return std::nullopt;
    }
    const IdContents contents{.inode = inode_of(file), .process = ::getpid(), .file = file};
    NcclUniqueId id{};
    std::memcpy(id.bytes, &contents, sizeof(contents));
    return id;
}

std::shared_ptr<Region> Region::open(const NcclUniqueId& id) {
    IdContents contents;
    std::memcpy(&contents, id.bytes, sizeof(contents));
    const int file = contents.magic == kIdMagic ? open_of(contents.process, contents.file, contents.inode) : -1;
    if (file < 0) {
        return nullptr;
    }
    void* mapping = ::mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapping == MAP_FAILED) {
        return nullptr;
    }
    return {static_cast<Region*>(mapping), [](Region* region) { ::munmap(region, sizeof(Region)); }};
}

}  // namespace rueda::tests::gpu
