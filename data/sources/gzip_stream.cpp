// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <utility>

#include "data/sources/byte_stream.hpp"

#ifdef RUEDA_HAS_ZLIB
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "data/sources/compressed_input.hpp"

namespace rueda::data {

namespace {

/// Decompresses gzip members or zlib streams, one after another.
class GzipStream final : public ByteStream {
public:
    GzipStream(std::unique_ptr<ByteStream> compressed, std::string name)
        : input_(std::move(compressed), std::move(name)) {}
    GzipStream(const GzipStream&) = delete;
    GzipStream& operator=(const GzipStream&) = delete;
    ~GzipStream() override { ::inflateEnd(&state_); }

    [[nodiscard]] Status start() {
        constexpr int kAnyHeader =
            15 + 32;  // the largest window; zlib finds out whether the header is gzip's or zlib's
        if (::inflateInit2(&state_, kAnyHeader) != Z_OK) {
            return failure(ErrorCode::resource_exhausted, "decompressing '{}': inflateInit2 failed; is there memory?",
                           input_.name());
        }
        return {};
    }

    Result<std::size_t> read(std::span<std::byte> into) override {
        into = into.first(std::min<std::size_t>(into.size(), std::numeric_limits<int>::max()));
        state_.next_out = reinterpret_cast<Bytef*>(into.data());
        state_.avail_out = static_cast<uInt>(into.size());
        while (state_.avail_out == into.size()) {
            RUEDA_RETURN_IF_FAILED(input_.fill());
            if (input_.rest().empty()) {
                return in_member_ ? Result<std::size_t>(cut()) : Result<std::size_t>(std::size_t{0});
            }
            RUEDA_RETURN_IF_FAILED(inflate_some());
        }
        return into.size() - state_.avail_out;
    }

private:
    [[nodiscard]] Status inflate_some() {
        const auto rest = input_.rest();
        state_.next_in = reinterpret_cast<z_const Bytef*>(const_cast<std::byte*>(rest.data()));
        state_.avail_in = static_cast<uInt>(rest.size());
        in_member_ = true;
        const int outcome = ::inflate(&state_, Z_NO_FLUSH);
        input_.use(rest.size() - state_.avail_in);
        if (outcome == Z_STREAM_END) {
            in_member_ = false;
            ::inflateReset(&state_);  // another member may follow
            return {};
        }
        if (outcome != Z_OK && outcome != Z_BUF_ERROR) {
            return failure(
                ErrorCode::invalid_argument,
                "decompressing '{}': damaged or no gzip data at compressed offset {}: {}; expected gzip or zlib "
                "data; check the file, or set another FileCompression",
                input_.name(), input_.offset(), state_.msg != nullptr ? state_.msg : "no reason given");
        }
        return {};
    }
    [[nodiscard]] Status cut() const {
        return failure(
            ErrorCode::invalid_argument,
            "decompressing '{}': the file ends at compressed offset {} inside of gzip data; it was cut or is "
            "still being written; copy it again",
            input_.name(), input_.offset());
    }

    CompressedInput input_;
    z_stream state_{};
    bool in_member_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> decompress_gzip(std::unique_ptr<ByteStream> compressed, const std::string& name) {
    auto stream = std::make_unique<GzipStream>(std::move(compressed), name);
    RUEDA_RETURN_IF_FAILED(stream->start());
    return std::unique_ptr<ByteStream>(std::move(stream));
}

}  // namespace rueda::data

#else

namespace rueda::data {

Result<std::unique_ptr<ByteStream>> decompress_gzip(std::unique_ptr<ByteStream> /*compressed*/,
                                                    const std::string& name) {
    return failure(ErrorCode::unsupported,
                   "opening '{}': it is compressed with gzip, and this build of Rueda has no zlib; install zlib's "
                   "development package (on Debian: zlib1g-dev) and build Rueda again, or decompress the file",
                   name);
}

}  // namespace rueda::data

#endif
