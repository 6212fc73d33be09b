// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/ipc/ipc_connection.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rueda::collectives::cuda {
namespace {

std::byte* pointer_of(DeviceAddress address) { return std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(address)); }

}  // namespace

IpcConnection::IpcConnection(std::shared_ptr<IpcDevice> device, HostExchange& exchange, std::uint32_t member,
                             std::uint32_t members, std::size_t slot_bytes)
    : device_(std::move(device)),
      exchange_(exchange),
      member_(member),
      members_(members),
      slot_bytes_(slot_bytes),
      peers_(members) {}

IpcConnection::~IpcConnection() {
    if (!keeps_) {
        close_all();
    }
}

Result<StepResult> IpcConnection::step(StepWork& work) {
    work = StepWork::other;
    switch (state_) {
        case State::unconnected:
            begin_handles();
            return StepResult::advanced;
        case State::exchanging_handles:
        case State::exchanging_results:
            break;
        case State::connected:
        case State::refused:
            return StepResult::done;
    }
    const StepResult result = exchange_.step(work);
    if (result != StepResult::done) {
        return result;
    }
    RUEDA_RETURN_IF_FAILED(state_ == State::exchanging_handles ? take_handles() : take_results());
    return StepResult::advanced;
}

void IpcConnection::begin_handles() {
    if (auto taken = device_->take((kSlots + 1) * slot_bytes_); taken.is_ok()) {
        own_ = taken.value();
    } else {
        own_failure_ = taken.status().message();
    }
    state_ = State::exchanging_handles;
    exchange_.begin(write_ipc_record(own_record(0)));
}

IpcRecord IpcConnection::own_record(std::uint32_t round) const {
    IpcRecord record{.member = member_,
                     .round = round,
                     .process = device_->process(),
                     .slot_bytes = slot_bytes_,
                     .closed = device_->closed(),
                     .refusal = own_failure_};
    if (own_) {
        record.handle = own_->handle;
        record.token = own_->token;
    }
    return record;
}

Result<std::vector<IpcRecord>> IpcConnection::read_records(std::uint32_t round) const {
    std::vector<IpcRecord> records;
    for (std::uint32_t member = 0; member < members_; ++member) {
        auto record = read_ipc_record(exchange_.of(member).first<kIpcRecordBytes>(), member, round);
        RUEDA_RETURN_IF_FAILED(record.status());
        records.push_back(std::move(record).value());
    }
    return records;
}

Status IpcConnection::take_handles() {
    auto read = read_records(0);
    RUEDA_RETURN_IF_FAILED(read.status());
    const std::vector<IpcRecord>& records = read.value();
    for (std::uint32_t member = 0; member < members_; ++member) {
        const IpcRecord& record = records[member];
        peers_[member].token = record.token;
        peers_[member].process = record.process;
        if (member != member_) {
            device_->note_closed(record.process, record.closed);
        }
        if (record.slot_bytes != slot_bytes_) {
            return failure(ErrorCode::internal, "member {} has CUDA IPC slots of {} bytes, and this member of {} bytes",
                           member, record.slot_bytes, slot_bytes_);
        }
    }
    if (refuse_if_one_does(records)) {
        return {};
    }
    for (const IpcRecord& record : records) {
        if (record.member != member_) {
            opened_by_.push_back(record.process);
        }
    }
    open_all(records);
    state_ = State::exchanging_results;
    exchange_.begin(write_ipc_record(own_record(1)));
    return {};
}

/// Opens the memory of all other members. Stops at the first failure. This member sends the result to the other members
/// in the second exchange.
void IpcConnection::open_all(std::span<const IpcRecord> records) {
    for (const IpcRecord& record : records) {
        if (record.member == member_) {
            continue;
        }
        auto opened = device_->open(record.handle);
        if (!opened.is_ok()) {
            own_failure_ = opened.status().message();
            return;
        }
        peers_[record.member].address = opened.value();
    }
}

Status IpcConnection::take_results() {
    auto records = read_records(1);
    RUEDA_RETURN_IF_FAILED(records.status());
    if (refuse_if_one_does(records.value())) {
        return {};
    }
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
        for (std::uint32_t member = 0; member < members_; ++member) {
            const DeviceAddress base = member == member_ ? own_->address : peers_[member].address;
            slots_.at(slot).push_back(pointer_of(base + slot * slot_bytes_));
        }
    }
    state_ = State::connected;
    return {};
}

std::byte* IpcConnection::scratch() const { return pointer_of(own_->address + kSlots * slot_bytes_); }

/// All members have the same records, so all of them refuse CUDA IPC for the same reason.
bool IpcConnection::refuse_if_one_does(std::span<const IpcRecord> records) {
    const auto found =
        std::find_if(records.begin(), records.end(), [](const IpcRecord& record) { return !record.refusal.empty(); });
    if (found == records.end()) {
        return false;
    }
    refusal_ = {.member = found->member, .reason = found->refusal};
    state_ = State::refused;
    close_all();
    return true;
}

void IpcConnection::close_all() noexcept {
    if (!own_) {
        return;
    }
    for (std::uint32_t member = 0; !opened_by_.empty() && member < members_; ++member) {
        if (member != member_) {
            device_->close(peers_[member].address, peers_[member].token);
        }
    }
    device_->give_back(*own_, std::move(opened_by_));
    own_.reset();
}

}  // namespace rueda::collectives::cuda
