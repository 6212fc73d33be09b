// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "data/sources/byte_stream.hpp"

namespace rueda::data {

/// The compressed bytes that a decompressor works on. Threads: one at a time.
class CompressedInput {
public:
    CompressedInput(std::unique_ptr<ByteStream> stream, std::string name)
        : stream_(std::move(stream)), name_(std::move(name)), buffer_(kCompressedBytes) {}

    /// Reads the next bytes if all earlier bytes are used. After this call, rest() is empty only at the end of the
    /// stream.
    [[nodiscard]] Status fill() {
        if (!rest_.empty() || ended_) {
            return {};
        }
        auto count = stream_->read(buffer_);
        RUEDA_RETURN_IF_FAILED(count.status());
        rest_ = std::span(buffer_).first(count.value());
        ended_ = rest_.empty();
        return {};
    }
    [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }
    void use(std::size_t bytes) noexcept {
        rest_ = rest_.subspan(bytes);
        offset_ += bytes;
    }
    /// How many compressed bytes were used.
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
    static constexpr std::size_t kCompressedBytes = std::size_t{256} << 10;

    std::unique_ptr<ByteStream> stream_;
    std::string name_;
    std::vector<std::byte> buffer_;
    std::span<const std::byte> rest_;
    std::uint64_t offset_ = 0;
    bool ended_ = false;
};

}  // namespace rueda::data
