// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_sets/member_exchange.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "collectives/wire.hpp"
#include "core/process_sets/set_changes.hpp"

namespace rueda::core {
namespace {

using collectives::Bytes;

/// The header of a message. The message's bytes follow separately, because the receiver must know their length to
/// allocate memory.
struct Header {
    std::uint32_t bytes = 0;
    std::int32_t code = 0;  ///< 0 if there is no error; otherwise the error's code, and the bytes are its text
};

}  // namespace

MemberExchange::MemberExchange(Engine& engine, std::vector<int> ranks, int job_rank, int job_size)
    : engine_(engine),
      identity_(std::make_shared<const SetIdentity>(SetIdentity{kSettingUp, std::move(ranks)})),
      job_rank_(job_rank),
      job_size_(job_size) {}

Result<std::vector<Bytes>> MemberExchange::operator()(std::span<const std::byte> mine) const {
    const int lowest = identity_->ranks.front();
    if (job_rank_ == lowest) {
        return gather(mine);
    }
    RUEDA_RETURN_IF_FAILED(send(lowest, {}, mine));
    const Result<Bytes> joined = receive(lowest);
    RUEDA_RETURN_IF_FAILED(joined.status());
    return split_by_named_rank(joined.value(), job_size_);
}

Result<std::vector<Bytes>> MemberExchange::gather(std::span<const std::byte> mine) const {
    collectives::WireWriter writer;
    Status failed;
    for (const int rank : identity_->ranks) {
        Bytes theirs(mine.begin(), mine.end());
        if (rank != job_rank_) {
            Result<Bytes> received = receive(rank);
            if (!received.is_ok()) {
                failed = received.status();
                continue;  // this loop continues after a failure, because the other members wait for an answer
            }
            theirs = std::move(received).value();
        }
        writer.number(static_cast<std::uint32_t>(rank));
        writer.number(static_cast<std::uint32_t>(theirs.size()));
        writer.append(theirs);
    }
    const Bytes joined = std::move(writer).take();
    for (const int rank : identity_->ranks) {
        if (rank != job_rank_) {
            const Status sent =
                send(rank, failed,
                     failed.is_ok() ? std::span<const std::byte>(joined) : std::as_bytes(std::span(failed.message())));
            // If `rank` has left since it sent its bytes, this send fails. The other members notice in the next step of
            // the setup that `rank` has left, and tell this rank.
            failed = failed.is_ok() && !sent.is_ok() ? sent : failed;
        }
    }
    RUEDA_RETURN_IF_FAILED(failed);
    return split_by_named_rank(joined, job_size_);
}

Status MemberExchange::send(int peer, const Status& how, std::span<const std::byte> bytes) const {
    const Header header{static_cast<std::uint32_t>(bytes.size()), static_cast<std::int32_t>(how.code())};
    std::array<std::byte, sizeof header> first{};
    std::memcpy(first.data(), &header, sizeof header);
    RUEDA_RETURN_IF_FAILED(run(/*sends=*/true, peer, first.data(), first.size()));
    Bytes second(bytes.begin(), bytes.end());
    return second.empty() ? Status() : run(/*sends=*/true, peer, second.data(), second.size());
}

Result<Bytes> MemberExchange::receive(int peer) const {
    std::array<std::byte, sizeof(Header)> first{};
    RUEDA_RETURN_IF_FAILED(run(/*sends=*/false, peer, first.data(), first.size()));
    Header header;
    std::memcpy(&header, first.data(), sizeof header);
    if (header.bytes > collectives::kMaxControlMessage || header.code < 0 ||
        header.code > static_cast<std::int32_t>(ErrorCode::internal)) {
        return failure(ErrorCode::internal,
                       "rank {} announced {} bytes and the error {}, which no working rank "
                       "does",
                       peer, header.bytes, header.code);
    }
    Bytes bytes(header.bytes);
    if (!bytes.empty()) {
        RUEDA_RETURN_IF_FAILED(run(/*sends=*/false, peer, bytes.data(), bytes.size()));
    }
    if (header.code != 0) {
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return Status(static_cast<ErrorCode>(header.code), base::printable(text, 4096));
    }
    return bytes;
}

Status MemberExchange::run(bool sends, int peer, std::byte* memory, std::size_t bytes) const {
    MessageRequest request;
    request.sends = sends;
    request.peer = peer;
    request.set = identity_;
    request.dtype = DType::uint8;
    request.bytes = bytes;
    request.memory = memory;
    Completion completion;
    return engine_.run(std::move(request), completion);
}

}  // namespace rueda::core
