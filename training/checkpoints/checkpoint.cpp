// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/safetensors/checksum.hpp"
#include "base/safetensors/safetensors.hpp"
#include "base/status.hpp"
#include "base/system/atomic_file.hpp"
#include "rueda/training/agreement.hpp"
#include "training/checkpoints/metadata_text.hpp"

namespace rueda::training {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian and are written as memory is");

namespace {

using base::AtomicFile;

constexpr std::size_t kMaxRead = std::size_t{1} << 30;  ///< the same limit as in base::AtomicFile

struct LengthBytes {
    std::array<std::byte, kLengthBytes> bytes{};
    explicit LengthBytes(std::uint64_t length) { std::memcpy(bytes.data(), &length, sizeof length); }
};

/// The size in bytes of the pieces in which data are read and written. This size is so small that a piece is still in
/// the core's cache when its checksum is computed.
constexpr std::size_t kPiece = std::size_t{256} << 10;

/// Writes the data and stores their checksums in the header.
Status write_tensors(AtomicFile& file, Header& header, std::span<const NamedTensor> tensors) {
    for (StoredTensor& stored : header.tensors) {
        const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                         [&](const NamedTensor& each) { return each.name == stored.info.name; });
        std::span left(static_cast<const std::byte*>(tensor->tensor.data()), stored.end - stored.begin);
        Checksum checksum;
        while (!left.empty()) {
            const auto piece = left.first(std::min(left.size(), kPiece));
            checksum.add(piece);
            RUEDA_RETURN_IF_FAILED(file.write(piece));
            left = left.subspan(piece.size());
        }
        stored.checksum = checksum.value();
    }
    return {};
}

Status write_file(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const Metadata& metadata) {
    Result<Header> header = lay_out(tensors, metadata);
    RUEDA_RETURN_IF_FAILED(header.status());
    header.value().has_checksums = true;
    const Result<std::string> text = format_header(header.value());
    RUEDA_RETURN_IF_FAILED(text.status());
    Result<AtomicFile> file = AtomicFile::create(path);
    RUEDA_RETURN_IF_FAILED(file.status());
    RUEDA_RETURN_IF_FAILED(file.value().write(LengthBytes(text.value().size()).bytes));
    RUEDA_RETURN_IF_FAILED(file.value().write(std::as_bytes(std::span(text.value()))));
    RUEDA_RETURN_IF_FAILED(write_tensors(file.value(), header.value(), tensors));
    // The header comes before the data in the file and contains their checksums. These are known only now, so the
    // header is written again.
    const Result<std::string> complete = format_header(header.value());
    RUEDA_RETURN_IF_FAILED(complete.status());
    RUEDA_RETURN_IF_FAILED(file.value().rewrite(kLengthBytes, std::as_bytes(std::span(complete.value()))));
    return file.value().commit();
}

/// Makes the error for a failed system call. If descriptors or memory are used up, the error is ResourceExhausted and
/// not InvalidArgument, because the file itself may be good.
Status reading_failure(const char* call, int error = errno) {
    const bool is_used_up = error == EMFILE || error == ENFILE || error == ENOMEM;
    return system_failure(is_used_up ? ErrorCode::resource_exhausted : ErrorCode::invalid_argument, call, error);
}

/// Reads exactly `bytes.size()` bytes. Fails if the file is too short.
Status read_at(int descriptor, std::uint64_t place, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t count =
            ::pread(descriptor, bytes.data(), std::min(bytes.size(), kMaxRead), static_cast<off_t>(place));
        if (count < 0 && errno != EINTR) {
            return reading_failure("read");
        }
        if (count == 0) {
            return failure(ErrorCode::invalid_argument, "the file ends at byte {}, {} bytes too early; it is truncated",
                           place, bytes.size());
        }
        const auto done = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
        place += done;
        bytes = bytes.subspan(done);
    }
    return {};
}

Result<std::uint64_t> size_of_file(int descriptor) {
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0) {
        return reading_failure("fstat");
    }
    if (!S_ISREG(facts.st_mode)) {
        return failure(ErrorCode::invalid_argument, "it is not a regular file; name a checkpoint file");
    }
    return static_cast<std::uint64_t>(facts.st_size);
}

Result<std::uint64_t> read_header_length(int descriptor, std::uint64_t file_bytes) {
    if (file_bytes < kLengthBytes) {
        return failure(
            ErrorCode::invalid_argument,
            "the file has {} bytes; a checkpoint begins with {} bytes of header length: it is truncated or no "
            "safetensors file",
            file_bytes, kLengthBytes);
    }
    LengthBytes length(0);
    RUEDA_RETURN_IF_FAILED(read_at(descriptor, 0, length.bytes));
    std::uint64_t value = 0;
    std::memcpy(&value, length.bytes.data(), sizeof value);
    const std::uint64_t most = std::min(kMaxHeaderBytes, file_bytes - kLengthBytes);
    if (value < 2 || value > most) {
        return failure(
            ErrorCode::invalid_argument,
            "the header's length is given as {} bytes; in a file of {} bytes it must be 2 to {}: it is truncated "
            "or no safetensors file",
            value, file_bytes, most);
    }
    return value;
}

std::string text_of(DType dtype, const Shape& shape) {
    return fmt::format("{} [{}]", name_of(dtype), fmt::join(shape.extents(), ", "));
}

bool same(const TensorInfo& stored, const TensorView& tensor) {
    const auto a = stored.shape.extents();
    const auto b = tensor.shape().extents();
    return stored.dtype == tensor.dtype() && std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// Returns one phrase for each difference: a tensor is missing in the file, exists only in the file, or has another
/// dtype or shape.
std::vector<std::string> differences(const std::vector<TensorInfo>& stored, std::span<const NamedTensor> model) {
    std::map<std::string_view, const TensorInfo*> by_name;
    for (const TensorInfo& info : stored) {
        by_name.emplace(info.name, &info);
    }
    std::vector<std::string> found;
    for (const NamedTensor& wanted : model) {
        const auto entry = by_name.extract(wanted.name);
        const std::string form = text_of(wanted.tensor.dtype(), wanted.tensor.shape());
        if (entry.empty()) {
            found.push_back(fmt::format("'{}' ({}) is not in it", wanted.name, form));
        } else if (!same(*entry.mapped(), wanted.tensor)) {
            found.push_back(fmt::format("'{}' is {} in it and {} in the model", wanted.name,
                                        text_of(entry.mapped()->dtype, entry.mapped()->shape), form));
        }
    }
    for (const auto& [name, info] : by_name) {
        found.push_back(fmt::format("'{}' ({}) is not in the model", name, text_of(info->dtype, info->shape)));
    }
    return found;
}

}  // namespace

struct Checkpoint::File {
    explicit File(std::filesystem::path file_path) : path(std::move(file_path)) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() {
        if (descriptor >= 0) {
            ::close(descriptor);
        }
    }

    Status open() {
        // The file is opened without blocking, so that a named pipe causes an error instead of a wait.
        descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (descriptor < 0) {
            return reading_failure("open");
        }
        const Result<std::uint64_t> file_bytes = size_of_file(descriptor);
        RUEDA_RETURN_IF_FAILED(file_bytes.status());
        const Result<std::uint64_t> length = read_header_length(descriptor, file_bytes.value());
        RUEDA_RETURN_IF_FAILED(length.status());
        std::string text(length.value(), '\0');
        RUEDA_RETURN_IF_FAILED(read_at(descriptor, kLengthBytes, std::as_writable_bytes(std::span(text))));
        data_begin = kLengthBytes + length.value();
        Result<Header> header = parse_header(text, file_bytes.value() - data_begin);
        RUEDA_RETURN_IF_FAILED(header.status());
        metadata = std::move(header.value().metadata);
        has_checksums = header.value().has_checksums;
        stored = std::move(header.value().tensors);
        for (const StoredTensor& tensor : stored) {
            tensors.push_back(tensor.info);
        }
        return {};
    }

    /// Reads the data of a tensor and checks their checksum.
    Status read(const StoredTensor& tensor, std::byte* target) const {
        std::uint64_t place = data_begin + tensor.begin;
        std::span left(target, tensor.end - tensor.begin);
        Checksum checksum;
        while (!left.empty()) {
            const auto piece = left.first(std::min(left.size(), kPiece));
            RUEDA_RETURN_IF_FAILED(read_at(descriptor, place, piece));
            checksum.add(piece);
            place += piece.size();
            left = left.subspan(piece.size());
        }
        return !has_checksums || checksum.value() == tensor.checksum ? Status()
                                                                     : checksum_failure(tensor, checksum.value());
    }

    void throw_if_failed(const Status& status) const {
        if (!status.is_ok()) {
            throw_error(status.code(), fmt::format("checkpoint {}: {}", path.string(), status.message()));
        }
    }

    std::filesystem::path path;
    int descriptor = -1;
    std::uint64_t data_begin = 0;
    Metadata metadata;
    std::vector<TensorInfo> tensors;
    std::vector<StoredTensor> stored;  ///< the tensors in `tensors`, with their positions in the file
    bool has_checksums = false;
};

Checkpoint::Checkpoint(const std::filesystem::path& path) {
    auto file = std::make_unique<File>(path);
    file->throw_if_failed(file->open());
    file_ = std::move(file);
}
Checkpoint::Checkpoint(Checkpoint&& other) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&& other) noexcept = default;
Checkpoint::~Checkpoint() = default;

const Metadata& Checkpoint::metadata() const noexcept { return file_->metadata; }
const std::vector<TensorInfo>& Checkpoint::tensors() const noexcept { return file_->tensors; }

void Checkpoint::check_against(std::span<const NamedTensor> model) const {
    constexpr std::size_t kShown = 3;
    const std::vector<std::string> found = differences(file_->tensors, model);
    if (found.empty()) {
        return;
    }
    const std::span shown = std::span(found).first(std::min(kShown, found.size()));
    const std::string more =
        found.size() > kShown ? fmt::format("; and {} more differences", found.size() - kShown) : "";
    file_->throw_if_failed(failure(ErrorCode::invalid_argument,
                                   "it belongs to another model: {}{}; name a checkpoint of this model",
                                   fmt::join(shown, "; "), more));
}

void Checkpoint::read(std::span<const NamedTensor> model) const {
    check_against(model);
    for (const StoredTensor& stored : file_->stored) {
        const auto target = std::find_if(model.begin(), model.end(),
                                         [&](const NamedTensor& each) { return each.name == stored.info.name; });
        file_->throw_if_failed(file_->read(stored, static_cast<std::byte*>(target->tensor.data())));
    }
}

void Checkpoint::read_tensor(std::string_view name, const TensorView& target) const {
    const auto stored = std::find_if(file_->stored.begin(), file_->stored.end(),
                                     [&](const StoredTensor& each) { return each.info.name == name; });
    if (stored == file_->stored.end() || !same(stored->info, target)) {
        file_->throw_if_failed(
            failure(ErrorCode::invalid_argument,
                    "tensor '{}' is {} in it; the program expects {}: name a checkpoint of this model", name,
                    stored == file_->stored.end() ? "not" : text_of(stored->info.dtype, stored->info.shape),
                    text_of(target.dtype(), target.shape())));
    }
    file_->throw_if_failed(file_->read(*stored, static_cast<std::byte*>(target.data())));
}

void write_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      const Metadata& metadata) {
    const Status status = write_file(path, tensors, metadata);
    if (!status.is_ok()) {
        throw_error(status.code(), fmt::format("checkpoint not saved: {}", status.message()));
    }
}

void save_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const Metadata& metadata,
                     int root) {
    run_on_root(
        [&] {
            const Busy busy("saving checkpoint " + path.string());
            write_checkpoint(path, tensors, metadata);
        },
        root);
}

Metadata restore_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors, int root) {
    Metadata metadata;
    run_on_root(
        [&] {
            const Busy busy("reading checkpoint " + path.string());
            const Checkpoint checkpoint(path);
            checkpoint.read(tensors);
            metadata = checkpoint.metadata();
        },
        root);
    broadcast_parameters(tensors, root);
    return broadcast_metadata(metadata, root);
}

}  // namespace rueda::training
