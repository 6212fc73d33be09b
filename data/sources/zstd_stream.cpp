// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <utility>

#include "data/sources/byte_stream.hpp"

#ifdef RUEDA_HAS_ZSTD
#include <zstd.h>

#include "data/sources/compressed_input.hpp"

namespace rueda::data {

namespace {

struct FreeZstd {
    void operator()(ZSTD_DStream* state) const noexcept { ::ZSTD_freeDStream(state); }
};

/// Decompresses zstd frames, one after another.
class ZstdStream final : public ByteStream {
public:
    ZstdStream(std::unique_ptr<ByteStream> compressed, std::string name)
        : input_(std::move(compressed), std::move(name)), state_(::ZSTD_createDStream()) {}

    [[nodiscard]] bool has_memory() const noexcept { return state_ != nullptr; }

    Result<std::size_t> read(std::span<std::byte> into) override {
        ZSTD_outBuffer out{into.data(), into.size(), 0};
        while (out.pos == 0) {
            RUEDA_RETURN_IF_FAILED(input_.fill());
            const auto rest = input_.rest();
            if (rest.empty() && !in_frame_) {
                return std::size_t{0};
            }
            ZSTD_inBuffer in{rest.data(), rest.size(), 0};
            const std::size_t outcome = ::ZSTD_decompressStream(state_.get(), &out, &in);
            input_.use(in.pos);
            if (::ZSTD_isError(outcome) != 0) {
                return damaged(::ZSTD_getErrorName(outcome));
            }
            in_frame_ = outcome != 0;
            // At the end of the input, the decompressor may still have output to return. If it returns no output, the
            // frame was cut.
            if (rest.empty() && in_frame_ && out.pos == 0) {
                return cut();
            }
        }
        return out.pos;
    }

private:
    [[nodiscard]] Status damaged(const char* reason) const {
        return failure(ErrorCode::invalid_argument,
                       "decompressing '{}': damaged or no zstd data at compressed offset {}: {}; expected zstd frames; "
                       "check the file, or set another FileCompression",
                       input_.name(), input_.offset(), reason);
    }
    [[nodiscard]] Status cut() const {
        return failure(
            ErrorCode::invalid_argument,
            "decompressing '{}': the file ends at compressed offset {} inside of a zstd frame; it was cut or is "
            "still being written; copy it again",
            input_.name(), input_.offset());
    }

    CompressedInput input_;
    std::unique_ptr<ZSTD_DStream, FreeZstd> state_;
    bool in_frame_ = false;  ///< true if a frame has begun and its end was not read yet
};

}  // namespace

Result<std::unique_ptr<ByteStream>> decompress_zstd(std::unique_ptr<ByteStream> compressed, const std::string& name) {
    auto stream = std::make_unique<ZstdStream>(std::move(compressed), name);
    if (!stream->has_memory()) {
        return failure(ErrorCode::resource_exhausted, "decompressing '{}': there is no memory for zstd", name);
    }
    return std::unique_ptr<ByteStream>(std::move(stream));
}

}  // namespace rueda::data

#else

namespace rueda::data {

Result<std::unique_ptr<ByteStream>> decompress_zstd(std::unique_ptr<ByteStream> /*compressed*/,
                                                    const std::string& name) {
    return failure(ErrorCode::unsupported,
                   "opening '{}': it is compressed with zstd, and this build of Rueda has no libzstd; install its "
                   "development package (on Debian: libzstd-dev) and build Rueda again, or decompress the file",
                   name);
}

}  // namespace rueda::data

#endif
