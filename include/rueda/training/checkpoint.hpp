// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Checkpoints in the safetensors format (https://github.com/huggingface/safetensors, "Format"). A file has three
/// parts. First comes the length of the header in eight bytes, little-endian. The header is JSON, with dtype, shape and
/// position of every tensor, and with a map of strings under "__metadata__". The data follow, little-endian and
/// row-major. Python reads such files by `safetensors.numpy.load_file`. Nothing in a checkpoint depends on the number
/// of processes.
///
/// "rueda.checksums" in "__metadata__" contains checksums (64-bit XXH3) of the header and of each tensor's data. With
/// these checksums, Rueda notices a flipped bit or a lost page when it reads the file, and reports an error. Other
/// programs ignore the checksums. A file without checksums, for example from another program, is read without this
/// check.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/parameters.hpp"

namespace rueda::training {

/// Texts of the program that are stored with the tensors, for example epoch, step and settings. They must be UTF-8.
using Metadata = std::map<std::string, std::string>;

/// Name, dtype and shape of a tensor in a checkpoint.
struct TensorInfo {
    std::string name;
    DType dtype = DType::float32;
    Shape shape;
};

/// Writes the checkpoint on rank `root` (see write_checkpoint()). All ranks must call this function. If the root fails,
/// all ranks throw the same error. While the root writes, stall reports show "saving checkpoint …" for the root.
RUEDA_API void save_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const Metadata& metadata = {}, int root = 0);

/// Reads the checkpoint on rank `root`, after checking it against `tensors` (class Checkpoint). Then broadcasts tensors
/// and metadata, so only the root needs the file. Returns the metadata. All ranks must call this function, and if
/// anything fails, all ranks throw the same error. An error that is found before the data are read leaves the tensors
/// unchanged. After a failed read or broadcast, the contents of the tensors are undefined.
RUEDA_API Metadata restore_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                                      int root = 0);

/// Writes a checkpoint in this process, without other ranks. The function writes `path`.partial, flushes this file to
/// the disk, renames it, and flushes the folder. At every moment, `path` is therefore either the previous complete
/// checkpoint or the new one, even if the process is killed or the power fails. The folder must exist. A failure
/// removes the .partial file. (A killed process leaves it behind; the next call overwrites it.) The tensors must not
/// change during the call. Otherwise the checksums would be wrong, and the file could not be read.
///
/// Throws InvalidArgument for a tensor name that is empty, occurs twice, is "__metadata__" or is not UTF-8. Also throws
/// it for metadata with the key "rueda.checksums", and for a path that cannot be written. Throws ResourceExhausted if
/// the disk is full or the quota is used up. The message contains the path, the call that failed, the system's reason,
/// and what to do.
RUEDA_API void write_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                                const Metadata& metadata = {});

/// An open checkpoint file. The constructor has checked its header completely: the lengths fit the size of the file,
/// and the shapes fit the numbers of bytes. JSON, dtypes and the header's checksum are correct. The tensors lie one
/// after another without gaps or overlaps, and no name occurs twice. If another file replaces this file at its path,
/// the object stays usable.
/// Threads: any thread may call const members.
class RUEDA_API Checkpoint {
public:
    /// Opens and checks a file. Throws InvalidArgument if the file is not correct. The message contains the file, what
    /// was found, and what was expected. Throws ResourceExhausted if descriptors or memory are used up.
    explicit Checkpoint(const std::filesystem::path& path);
    Checkpoint(Checkpoint&& other) noexcept;
    Checkpoint& operator=(Checkpoint&& other) noexcept;
    ~Checkpoint();

    [[nodiscard]] const Metadata& metadata() const noexcept;
    /// The tensors, ordered by their positions in the file.
    [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept;

    /// Checks that the file contains exactly the tensors of `model`, with the same names, dtypes and shapes. Otherwise
    /// throws InvalidArgument with the first differences.
    void check_against(std::span<const NamedTensor> model) const;
    /// Calls check_against(), and then copies every tensor of the file into the tensor of `model` with the same name.
    /// Throws InvalidArgument if the file cannot be read, or if a tensor's data do not match their checksum. After such
    /// an error, the contents of `model` are undefined.
    void read(std::span<const NamedTensor> model) const;
    /// Copies the tensor `name` of the file into `target`, which must have the same dtype and shape. Throws
    /// InvalidArgument as read() does, and also if the file has no such tensor.
    void read_tensor(std::string_view name, const TensorView& target) const;

private:
    struct File;
    std::unique_ptr<const File> file_;
};

}  // namespace rueda::training
