// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/formats/mapped_tensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/safetensors/checksum.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "data/sources/byte_stream.hpp"

namespace rueda::data {

static_assert(std::endian::native == std::endian::little, "the values of a file are used as they lie in memory");

namespace {

using training::Header;
using training::kLengthBytes;
using training::StoredTensor;

Result<std::shared_ptr<const void>> map_file(const std::string& path, std::size_t& size) {
    const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.is_open()) {
        return system_failure(ErrorCode::invalid_argument, fmt::format("opening '{}': open", path));
    }
    struct stat info {};
    if (::fstat(file.value(), &info) != 0 || !S_ISREG(info.st_mode)) {
        return failure(ErrorCode::invalid_argument,
                       "opening '{}': it is not a regular file; only regular files can be mapped into memory", path);
    }
    size = static_cast<std::size_t>(info.st_size);
    if (size == 0) {
        return std::shared_ptr<const void>();  // the system refuses to map an empty file
    }
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
    if (address == MAP_FAILED) {
        return system_failure(errno == ENOMEM ? ErrorCode::resource_exhausted : ErrorCode::invalid_argument,
                              fmt::format("opening '{}': mmap of {} bytes", path, size));
    }
    return std::shared_ptr<const void>(address,
                                       [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); });
}

/// Returns the failure for a tensor that the format's options and the file describe differently.
template <class... Args>
Status refuse_tensor(fmt::format_string<Args...> text, Args&&... args) {
    return failure(ErrorCode::mismatch, text, std::forward<Args>(args)...);
}

/// Reads the header at the beginning of the bytes.
Result<Header> read_tensor_header(std::span<const std::byte> bytes) {
    std::uint64_t length = 0;
    if (bytes.size() >= kLengthBytes) {
        std::memcpy(&length, bytes.data(), sizeof length);
    }
    const std::uint64_t most = bytes.size() < kLengthBytes ? 0 : bytes.size() - kLengthBytes;
    if (length < 2 || length > std::min(most, training::kMaxHeaderBytes)) {
        return failure(
            ErrorCode::invalid_argument,
            "the header's length at offset 0 is {} bytes, and the file has {} bytes; the file is cut, or is no "
            "safetensors file; copy it again",
            length, bytes.size());
    }
    const auto text = bytes.subspan(kLengthBytes, length);
    return training::parse_header({reinterpret_cast<const char*>(text.data()), text.size()}, most - length);
}

/// Returns the names of the file's first tensors.
std::string names_of(const std::vector<StoredTensor>& tensors) {
    constexpr std::size_t kMost = 20;
    std::string text;
    for (std::size_t i = 0; i < std::min(kMost, tensors.size()); ++i) {
        text += (i == 0 ? "" : ", ") + base::quote(tensors[i].info.name, 60);
    }
    return text + (tensors.size() > kMost ? fmt::format(" and {} more", tensors.size() - kMost) : "");
}

std::string form_of(const training::TensorInfo& info) {
    return fmt::format("dtype {} and shape [{}]", name_of(info.dtype), fmt::join(info.shape.extents(), ", "));
}

/// Checks the shape of a tensor, and returns its first extent.
Result<std::size_t> rows_of(const StoredTensor& tensor, const ArrayColumn& column) {
    const auto extents = tensor.info.shape.extents();
    std::int64_t width = 1;
    bool fits = !extents.empty();
    for (std::size_t i = 1; i < extents.size(); ++i) {
        fits = fits && !__builtin_mul_overflow(width, extents[i], &width);
    }
    if (!fits || width != column.width) {
        return refuse_tensor(
            "tensor '{}' has {}; expected {} values in each row; correct the width of the column in Safetensors",
            column.name, form_of(tensor.info), column.width);
    }
    return static_cast<std::size_t>(extents.front());
}

Status check_tensor_data(const StoredTensor& tensor, std::span<const std::byte> data, const StopSignal& stop) {
    // A piece of this size stays in the second-level cache while it is added to the checksum.
    constexpr std::size_t kPiece = std::size_t{256} << 10;
    training::Checksum checksum;
    for (std::span<const std::byte> left = data; !left.empty();) {
        if (stop.is_given()) {
            return {ErrorCode::aborted, "the pipeline was stopped"};
        }
        const auto piece = left.first(std::min(left.size(), kPiece));
        checksum.add(piece);
        left = left.subspan(piece.size());
    }
    return checksum.value() == tensor.checksum ? Status() : training::checksum_failure(tensor, checksum.value());
}

template <class From, class To>
void convert_each(const std::byte* from, std::byte* to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        From value{};
        std::memcpy(&value, from + i * sizeof(From), sizeof value);
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here, and keeps its sign
        const To wider = value;
        std::memcpy(to + i * sizeof(To), &wider, sizeof wider);
    }
}

template <std::size_t kBytes>
void copy_each(const std::byte* from, std::byte* to, std::size_t count) {
    std::memcpy(to, from, count * kBytes);
}

/// A value of a type with 16 bits, which is converted to float32.
struct BFloat16Bits {
    std::uint16_t bits;
    operator float() const noexcept {  // NOLINT(google-explicit-constructor): convert_each() converts implicitly
        return std::bit_cast<float>(std::uint32_t{bits} << 16);
    }
};
struct Float16Bits {
    std::uint16_t bits;
    operator float() const noexcept {  // NOLINT(google-explicit-constructor): convert_each() converts implicitly
        const std::uint32_t magnitude = std::uint32_t{bits} & 0x7fff;
        const std::uint32_t sign = (std::uint32_t{bits} & 0x8000) << 16;
        if (magnitude >= 0x7c00) {  // infinity or NaN
            return std::bit_cast<float>(sign | 0x7f800000 | (magnitude << 13));
        }
        // A biased exponent of float16 must be increased by 112 to become one of float32. The multiplication does this.
        // It also makes subnormal numbers normal, and it is exact.
        return std::bit_cast<float>(sign |
                                    std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F));
    }
};

}  // namespace

Result<MappedBytes> MappedBytes::open(const Source& source) {
    if (source.kind == SourceKind::fifo || compression_of(source) != FileCompression::none) {
        return failure(ErrorCode::invalid_argument,
                       "opening '{}': {} cannot be mapped into memory; the format Safetensors needs regular files "
                       "without compression",
                       source.name, source.kind == SourceKind::fifo ? "a FIFO" : "a compressed source");
    }
    MappedBytes mapped;
    if (source.kind == SourceKind::memory) {
        if (source.bytes == nullptr) {
            return failure(ErrorCode::invalid_argument,
                           "opening the memory source '{}': it has no bytes; make it with memory()", source.name);
        }
        mapped.bytes_ = std::as_bytes(std::span(*source.bytes));
        mapped.owner_ = source.bytes;
        return mapped;
    }
    std::size_t size = 0;
    auto owner = map_file(source.name, size);
    RUEDA_RETURN_IF_FAILED(owner.status());
    mapped.owner_ = std::move(owner).value();
    mapped.bytes_ = {static_cast<const std::byte*>(mapped.owner_.get()), size};
    return mapped;
}

MappedTensors::Convert MappedTensors::find_conversion(DType from, DType to) {
    if (from == to || (from == DType::boolean && to == DType::uint8)) {
        return size_of(to) == 1 ? copy_each<1> : size_of(to) == 4 ? copy_each<4> : copy_each<8>;
    }
    if (to == DType::float32) {
        return from == DType::float16    ? convert_each<Float16Bits, float>
               : from == DType::bfloat16 ? convert_each<BFloat16Bits, float>
                                         : nullptr;
    }
    if (to != DType::int64) {
        return nullptr;
    }
    switch (from) {
        case DType::int8:
            return convert_each<std::int8_t, std::int64_t>;
        case DType::uint8:
            return convert_each<std::uint8_t, std::int64_t>;
        case DType::int16:
            return convert_each<std::int16_t, std::int64_t>;
        case DType::uint16:
            return convert_each<std::uint16_t, std::int64_t>;
        case DType::int32:
            return convert_each<std::int32_t, std::int64_t>;
        case DType::uint32:
            return convert_each<std::uint32_t, std::int64_t>;
        default:
            return nullptr;
    }
}

Result<std::shared_ptr<const MappedTensors>> MappedTensors::check(MappedBytes bytes, const Safetensors& format,
                                                                  const StopSignal& stop) {
    const auto header = read_tensor_header(bytes.all());
    RUEDA_RETURN_IF_FAILED(header.status());
    auto made = std::make_shared<MappedTensors>();
    const std::vector<StoredTensor>& stored = header.value().tensors;
    const std::size_t data_bytes = stored.empty() ? 0 : stored.back().end;
    const auto data = bytes.all().last(data_bytes);
    for (const ArrayColumn& column : format.tensors) {
        const auto found = std::find_if(stored.begin(), stored.end(),
                                        [&](const StoredTensor& each) { return each.info.name == column.name; });
        if (found == stored.end()) {
            return refuse_tensor("there is no tensor '{}'; the file has {}; correct the names in Safetensors",
                                 column.name, stored.empty() ? "no tensors" : names_of(stored));
        }
        const auto content = data.subspan(found->begin, found->end - found->begin);
        RUEDA_RETURN_IF_FAILED(made->add(*found, column, content));
        if (format.check_data && header.value().has_checksums) {
            RUEDA_RETURN_IF_FAILED(check_tensor_data(*found, content, stop));
        }
    }
    made->bytes_ = std::move(bytes);
    return std::shared_ptr<const MappedTensors>(std::move(made));
}

Status MappedTensors::add(const training::StoredTensor& stored, const ArrayColumn& column,
                          std::span<const std::byte> content) {
    const auto rows = rows_of(stored, column);
    RUEDA_RETURN_IF_FAILED(rows.status());
    if (!tensors_.empty() && rows.value() != rows_) {
        return refuse_tensor("tensor '{}' has {}; expected {} rows, as the tensors before it in Safetensors have",
                             column.name, form_of(stored.info), rows_);
    }
    const Convert convert = find_conversion(stored.info.dtype, column.dtype);
    if (convert == nullptr) {
        return refuse_tensor(
            "tensor '{}' has {}, which does not fit its column of dtype {}; correct the dtype in Safetensors",
            column.name, form_of(stored.info), name_of(column.dtype));
    }
    const auto width = static_cast<std::size_t>(column.width);
    tensors_.push_back({content.data(), width * size_of(stored.info.dtype), width, convert});
    rows_ = rows.value();
    row_bytes_ += tensors_.back().row_bytes;
    return {};
}

Record MappedTensors::record(std::size_t row, std::uint32_t source) const noexcept {
    const Tensor& first = tensors_.front();
    const auto begin = static_cast<std::uint64_t>(first.data - bytes_.all().data());
    return {reinterpret_cast<const char*>(this), row_bytes_, begin + row * first.row_bytes, row, source};
}

}  // namespace rueda::data
