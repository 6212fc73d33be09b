// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Checkpoints in the safetensors format (https://github.com/huggingface/safetensors, "Format"): eight bytes of header
/// length, little-endian; a JSON header with dtype, shape and place of every tensor and a map of strings under
/// "__metadata__"; then the data, little-endian and row-major. Python reads them by `safetensors.numpy.load_file`.
/// Nothing in a checkpoint depends on the number of processes.
///
/// "rueda.checksums" in "__metadata__" holds checksums (XXH3 of 64 bits) of the header and of the data of each tensor.
/// Other readers ignore them. With them, a flipped bit or a lost page of the file is an error when the file is read. A
/// file without checksums, such as one that another program wrote, is read without this check.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/parameters.hpp"

namespace rueda::training {

/// Free text that is stored with the tensors: epoch, step, settings. UTF-8.
using Metadata = std::map<std::string, std::string>;

/// What a checkpoint says about one of its tensors.
struct TensorInfo {
    std::string name;
    DType dtype = DType::float32;
    Shape shape;
};

/// Collective: rank `root` writes the checkpoint (write_checkpoint), and all ranks learn whether it succeeded. If it
/// failed, all throw the same error. While the root writes, it is Busy("saving checkpoint …").
RUEDA_API void save_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const Metadata& metadata = {}, int root = 0);

/// Collective: rank `root` opens the checkpoint, checks it against `tensors` and reads it (class Checkpoint). Then
/// tensors and metadata are broadcast, so the file need exist on the root's machine only. If this fails, all ranks
/// throw the same error. Returns the metadata. An error that is found before reading leaves the tensors untouched.
/// After a failed read or broadcast their contents are undefined.
RUEDA_API Metadata restore_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                                      int root = 0);

/// Writes a checkpoint from this process alone. It writes to `path`.partial, flushes this file to the disk, renames it,
/// and flushes the folder. So at every moment `path` is either the previous complete checkpoint or the new one, even if
/// the process is killed or the power fails. The folder must exist. A failure removes the .partial file. (A killed
/// process leaves it; the next save overwrites it.) The tensors must not change meanwhile: the checksums would be
/// wrong, and the file could not be read. Throws InvalidArgument for names that are empty, double, "__metadata__" or
/// not UTF-8, for the metadata "rueda.checksums", and for a path that cannot be written. Throws ResourceExhausted for a
/// full disk or quota. The message has the path, the call that failed, the system's reason, and what to do.
RUEDA_API void write_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                                const Metadata& metadata = {});

/// An open checkpoint file whose header has been checked completely: lengths against the size of the file, JSON,
/// dtypes, shapes against bytes, positions without gap or overlap, no double names, the header's checksum. It stays
/// readable if the file is replaced meanwhile. Threads: const members from any.
class RUEDA_API Checkpoint {
public:
    /// Opens and checks a file. The InvalidArgument that it throws has the file, what was found and what was expected.
    explicit Checkpoint(const std::filesystem::path& path);
    Checkpoint(Checkpoint&& other) noexcept;
    Checkpoint& operator=(Checkpoint&& other) noexcept;
    ~Checkpoint();

    [[nodiscard]] const Metadata& metadata() const noexcept;
    /// The tensors in the order of their positions in the file.
    [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept;

    /// Throws InvalidArgument, naming the first differences, unless the file holds exactly the tensors of `model`: the
    /// same names, dtypes and shapes.
    void check_against(std::span<const NamedTensor> model) const;
    /// Calls check_against, and copies every tensor of the file into the tensor with the same name. Throws
    /// InvalidArgument if the file cannot be read, or if data do not have their checksum. The contents of `model` are
    /// then undefined.
    void read(std::span<const NamedTensor> model) const;

private:
    struct File;
    std::unique_ptr<const File> file_;
};

}  // namespace rueda::training
