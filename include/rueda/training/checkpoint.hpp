// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Checkpoints in the safetensors format (https://github.com/huggingface/safetensors, "Format"): eight bytes of header
/// length, little-endian; a JSON header with dtype, shape and place of every tensor and a map of strings under
/// "__metadata__"; then the data, little-endian and row-major. Python reads them by `safetensors.numpy.load_file`.
/// Nothing in them depends on the number of processes.
///
/// Under "rueda.checksums" in "__metadata__" stand checksums (XXH3 of 64 bits) of the header and of the data of each
/// tensor. Other readers ignore them. A flipped bit or a lost page of the file is an error when it is read. A file
/// without them, such as one that another program wrote, is read without this check.
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

/// Free text that travels with the tensors: epoch, step, settings. UTF-8.
using Metadata = std::map<std::string, std::string>;

/// What a checkpoint says about one of its tensors.
struct TensorInfo {
    std::string name;
    DType dtype = DType::float32;
    Shape shape;
};

/// Collective: rank `root` writes the checkpoint (write_checkpoint), and all ranks learn whether it worked; where not,
/// all throw the same error. While the root writes it is Busy("saving checkpoint …").
RUEDA_API void save_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const Metadata& metadata = {}, int root = 0);

/// Collective: rank `root` opens the checkpoint, checks it against `tensors` and reads it (class Checkpoint); then
/// tensors and metadata are broadcast, so the file need exist on the root's machine only. Where that fails, all ranks
/// throw the same error. Returns the metadata. Tensors are untouched by an error found before reading; their contents
/// are undefined after a failed read or broadcast.
RUEDA_API Metadata restore_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                                      int root = 0);

/// Writes a checkpoint from this process alone: to `path`.partial, which is flushed to the disk and then renamed; then
/// the folder is flushed. So `path` is at every moment the previous complete checkpoint or the new one, also when the
/// process is killed or the power fails. The folder must exist. A failure removes the .partial file. (A killed process
/// leaves it; the next save overwrites it.) The tensors must not be changed meanwhile: the file could not be read then,
/// because the checksums would be wrong. Throws InvalidArgument for names that are empty, double, "__metadata__" or
/// not UTF-8, for the metadata "rueda.checksums", and for a path that cannot be written; ResourceExhausted for a full
/// disk or quota. The message has the path, the call that failed, the system's reason, and what to do.
RUEDA_API void write_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                                const Metadata& metadata = {});

/// An open checkpoint file whose header has been checked completely: lengths against the size of the file, JSON,
/// dtypes, shapes against bytes, places without gap or overlap, no name twice, its checksum. Stays readable when the
/// file is replaced meanwhile. Threads: const members from any.
class RUEDA_API Checkpoint {
public:
    /// Opens and checks. Throws InvalidArgument with the file, what was found and what was expected.
    explicit Checkpoint(const std::filesystem::path& path);
    Checkpoint(Checkpoint&& other) noexcept;
    Checkpoint& operator=(Checkpoint&& other) noexcept;
    ~Checkpoint();

    [[nodiscard]] const Metadata& metadata() const noexcept;
    /// In the order of their places in the file.
    [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept;

    /// Throws InvalidArgument, naming the first differences, unless the file holds exactly the tensors of `model`:
    /// names, dtypes, shapes.
    void check_against(std::span<const NamedTensor> model) const;
    /// Copies every tensor of the file into that of the same name, after check_against. Throws InvalidArgument where
    /// the file cannot be read, and where data do not have their checksum; the contents of `model` are undefined then.
    void read(std::span<const NamedTensor> model) const;

private:
    struct File;
    std::unique_ptr<const File> file_;
};

}  // namespace rueda::training
