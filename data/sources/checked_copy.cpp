// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/sources/checked_copy.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

namespace rueda::data {

static_assert(std::endian::native == std::endian::little, "the numbers of a block are written as they lie in memory");

namespace {

/// A block of this size stays in the second-level cache while its checksum is computed.
constexpr std::size_t kMostBlockBytes = std::size_t{256} << 10;

struct BlockHead {
    std::uint64_t bytes;
    std::uint64_t checksum;
};
static_assert(sizeof(BlockHead) == 16);

std::uint64_t checksum_of(std::span<const std::byte> block, std::uint64_t place) {
    return XXH3_64bits_withSeed(block.data(), block.size(), place);
}

class CheckedStream final : public ByteStream {
public:
    CheckedStream(std::unique_ptr<ByteStream> blocks, std::string name)
        : blocks_(std::move(blocks)), name_(std::move(name)) {}

    Result<std::size_t> read(std::span<std::byte> into) override {
        std::size_t done = 0;
        while (done != into.size() && !ended_) {
            if (rest_.empty()) {
                const auto direct = next_block(into.subspan(done));
                RUEDA_RETURN_IF_FAILED(direct.status());
                done += direct.value();
                continue;
            }
            const std::size_t count = std::min(rest_.size(), into.size() - done);
            std::memcpy(into.data() + done, rest_.data(), count);
            rest_ = rest_.subspan(count);
            done += count;
        }
        return done;
    }

private:
    /// Reads and checks the next block. If the block fits into `into`, its bytes are put into `into`, and the result is
    /// their number. Otherwise they are put into rest_, and the result is 0.
    Result<std::size_t> next_block(std::span<std::byte> into) {
        BlockHead head{};
        RUEDA_RETURN_IF_FAILED(read_exactly(std::as_writable_bytes(std::span(&head, 1))));
        if (head.bytes > kMostBlockBytes) {
            return damaged("the length of a block is wrong");
        }
        const bool fits = head.bytes <= into.size();
        if (!fits) {
            buffer_.resize(kMostBlockBytes);
        }
        const auto block = (fits ? into : std::span(buffer_)).first(head.bytes);
        RUEDA_RETURN_IF_FAILED(read_exactly(block));
        if (checksum_of(block, place_) != head.checksum) {
            return damaged("the checksum of a block is wrong");
        }
        place_ += head.bytes;
        ended_ = head.bytes == 0;
        rest_ = fits ? std::span<const std::byte>() : block;
        return fits ? block.size() : 0;
    }
    Status read_exactly(std::span<std::byte> into) {
        while (!into.empty()) {
            const auto count = blocks_->read(into);
            RUEDA_RETURN_IF_FAILED(count.status());
            if (count.value() == 0) {
                return damaged("the file ends too early");
            }
            into = into.subspan(count.value());
        }
        return {};
    }
    [[nodiscard]] Status damaged(std::string_view how) const {
        return failure(ErrorCode::invalid_argument, "the copy '{}' is damaged: behind {} good bytes, {}", name_, place_,
                       how);
    }

    std::unique_ptr<ByteStream> blocks_;
    std::string name_;
    std::uint64_t place_ = 0;  ///< number of bytes in the blocks that were checked
    std::vector<std::byte> buffer_;
    std::span<const std::byte> rest_;  ///< checked bytes of buffer_ that read() has not returned yet
    bool ended_ = false;
};

}  // namespace

Status CheckedWriter::add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto block = bytes.first(std::min(bytes.size(), kMostBlockBytes));
        RUEDA_RETURN_IF_FAILED(write_block(block));
        bytes = bytes.subspan(block.size());
    }
    return {};
}

Status CheckedWriter::finish() {
    RUEDA_RETURN_IF_FAILED(write_block({}));
    return file_.commit();
}

Status CheckedWriter::write_block(std::span<const std::byte> bytes) {
    const BlockHead head{bytes.size(), checksum_of(bytes, place_)};
    RUEDA_RETURN_IF_FAILED(file_.write(std::as_bytes(std::span(&head, 1))));
    place_ += bytes.size();
    return bytes.empty() ? Status() : file_.write(bytes);
}

std::unique_ptr<ByteStream> read_checked(std::unique_ptr<ByteStream> blocks, std::string name) {
    return std::make_unique<CheckedStream>(std::move(blocks), std::move(name));
}

}  // namespace rueda::data
