// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The input pipeline: from sources to batches.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/data/batch.hpp"
#include "rueda/data/formats.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

/// The position of a pipeline between two batches. A pipeline has no other state. Save the position of only one rank in
/// the checkpoint, because ranks that took the same number of batches have the same position. (docs/data.md describes
/// an exception for several lanes, near the end of an epoch.) The position stays valid if the number of ranks changes.
struct Position {
    std::int64_t epoch = 0;
    std::int64_t step = 0;          ///< number of batches that next() has returned in this epoch
    std::uint64_t fingerprint = 0;  ///< identifies the options that determine the order of the samples

    [[nodiscard]] bool operator==(const Position&) const = default;
    /// Returns the position as one line of text, for a checkpoint.
    [[nodiscard]] RUEDA_API std::string to_text() const;
    /// Parses a line that to_text() returned. Throws InvalidArgument for any other text.
    [[nodiscard]] RUEDA_API static Position from_text(std::string_view text);
};

/// What happens to the last samples of an epoch if they do not fill a batch.
enum class Remainder : std::int32_t {
    keep,  ///< the last samples form a smaller batch
    drop,  ///< the epoch ends before the first batch that is not full
    pad,   ///< if a batch is not full, each rank's part is filled up with rows of zeros and empty texts (padding). So
           ///< all batches of a rank have the same number of rows. The column PipelineOptions::weights says which rows
           ///< are samples. Padding also replaces malformed records
};

struct PipelineOptions {
    std::vector<Source> sources;  ///< for example files("train-*.tfrecord")
    Format format;
    std::int64_t batch = 0;  ///< number of samples in one step, over all ranks; ≥ size
    int rank = 0;            ///< usually rueda::rank()
    int size = 1;            ///< usually rueda::size()
    std::uint64_t seed = 0;  ///< seed of the permutations; must be the same on every rank
    /// number of samples that are permuted together, summed over all lanes (see `lanes`). The order of the sources is
    /// also permuted, unless a source is a FIFO. With 0, nothing is permuted
    std::int64_t shuffle = 0;
    /// the number of lanes, the sequences into which the sources are divided; at most the number of sources. If `lanes`
    /// is a multiple of `size`, each rank reads only its own sources. If `lanes` is 1, every rank reads all sources
    std::int64_t lanes = 1;
    Remainder remainder = Remainder::keep;
    bool drop_remainder = false;  ///< If true, has the same effect as `remainder` = Remainder::drop
    /// With Remainder::pad, each batch has a column of float32 with this name. Its value (the weight) is 1 for a
    /// sample, and 0 for padding. When you compute loss, gradient and metrics, multiply each row by its weight.
    /// average_weight() in rueda/data/agree.hpp computes the weight of a rank's mean in the average over the ranks. The
    /// column is added after `maps`, which must not add a column of the same name.
    std::string weights = "weight";
    /// number of epochs; 0 means no end. If this rank gets no batch in an epoch, the pipeline only warns, because other
    /// ranks may have batches in this epoch. There is an error if `epochs` is 0, no source is a FIFO, and 100 epochs in
    /// a row within 10 s have no batch: a loop that waits for a batch would never end
    std::int64_t epochs = 0;
    /// The number of malformed records that are left out in each epoch; a further malformed record is an error. Each
    /// rank counts its own malformed records. The count begins at 0 in each epoch, and at the start of the pipeline if
    /// it starts in the middle of an epoch. The limit is only for records: options that do not fit the files, such as
    /// the name of a tensor that a file does not have, are always an error.
    std::int64_t malformed_limit = 0;
    /// number of threads that parse. 0 stands for the number of usable cores, but at most 8. After init(), 0 stands for
    /// threads_per_rank(), but at most 8, because the ranks of a host share its cores
    int threads = 0;
    /// the largest number of batches that the pipeline prepares before the caller takes them; 0: threads + 2
    std::int64_t prefetch = 0;
    /// For each batch, a thread calls these functions in their order. Several threads may call them at the same time,
    /// for different batches.
    std::vector<std::function<void(Batch&)>> maps = {};
    /// the memory in which the arrays of batches lie. A null pointer stands for ordinary memory. The result of
    /// resident_memory() in rueda/data/resident.hpp stands for memory that all ranks of the host share. A program can
    /// also pass functions of its own, for example cudaMallocHost and cudaFreeHost for pinned memory
    std::shared_ptr<const BatchMemory> memory = {};
    /// where the pipeline keeps the decompressed bytes of the files for later epochs: "memory" (of this process), the
    /// path of a folder, or empty for nowhere. A folder keeps the bytes for later jobs, too, and all ranks of a host
    /// can share it. FIFOs, bytes in memory, and the formats Safetensors and WholeFiles have no cache
    std::string cache = {};
    /// the position at which the pipeline begins. Its fingerprint must be the fingerprint of these options. A
    /// fingerprint of 0 is not checked
    Position start = {};
};

/// How much work a pipeline did, and how long each of its stages took.
struct Statistics {
    std::int64_t batches = 0;    ///< number of batches that were taken
    std::int64_t records = 0;    ///< number of records in the batches that were taken, without padding
    std::int64_t bytes = 0;      ///< number of bytes of these records before parsing
    std::int64_t malformed = 0;  ///< number of malformed records that were left out
    double seconds = 0;          ///< time since the first call of next()
    double consumer_waited = 0;  ///< seconds in which next() waited
    double reading = 0;  ///< seconds for reading, decompressing, finding and permuting records; sum of all lanes
    double parsing = 0;  ///< seconds for parsing records; sum of all threads
    double mapping = 0;  ///< seconds in the functions of PipelineOptions::maps; sum of all threads
    double starved = 0;  ///< seconds in which the parsing threads waited for samples of the lanes; sum of all threads
    int lanes = 0;       ///< number of lanes that this rank reads
    int threads = 0;     ///< number of threads that parse
    std::int64_t cache_opened = 0;   ///< how often the pipeline opened a copy in the cache instead of the file itself
    std::int64_t cache_refused = 0;  ///< how often the cache could not keep a copy
    std::string cache_refusal = {};  ///< the reason why the first of these copies could not be kept
};

/// Reads the sources with threads of its own and hands out batches. The batches depend on the options alone, not on the
/// number of threads or on timing. docs/data.md explains how to choose the options.
///
/// Threads: one thread at a time may call the functions.
class RUEDA_API Pipeline {
public:
    /// Starts the threads. Throws InvalidArgument if an option is wrong; the message names the option. Throws
    /// InvalidArgument if `start` has the fingerprint of other options. Throws ResourceExhausted if the system refuses
    /// a thread.
    explicit Pipeline(PipelineOptions options);
    Pipeline(Pipeline&&) noexcept;
    Pipeline& operator=(Pipeline&&) noexcept;
    /// Stops the threads, and drops batches that were not taken.
    ~Pipeline();

    /// Waits for the next batch and puts it into `batch`, whose old memory is used again. Returns false at the end of
    /// each epoch, and at every call after the last epoch. If the result is false, `batch` is unchanged.
    ///
    /// With Remainder::keep, the last batch of an epoch may be smaller than the other batches. If it has fewer samples
    /// than there are ranks, this rank's part of the batch may be empty (rows() is 0). This part is also empty if all
    /// of this rank's records in the step are malformed and are left out. The first empty part is reported in the log
    /// and by warnings().
    ///
    /// Throws InvalidArgument if there are more malformed records than the limit, if a source cannot be read, or if it
    /// does not fit the options of the format. Throws the same error if the number of epochs is not limited and no
    /// epoch has a batch (see PipelineOptions::epochs). If a map function or a function of BatchMemory has thrown an
    /// exception, next() throws this exception. Later calls throw the same error.
    bool next(Batch& batch);

    /// Waits until next() can return without waiting, but not longer than `timeout`. Returns false after a timeout. A
    /// program that must also handle other events, for example signals, calls this function repeatedly with a short
    /// timeout.
    bool wait_for(std::chrono::nanoseconds timeout);

    /// Returns the position after the last batch that was taken. After next() returned false, this is the beginning of
    /// the next epoch.
    [[nodiscard]] Position position() const;
    /// Returns whether all epochs have ended.
    [[nodiscard]] bool finished() const;
    [[nodiscard]] Statistics statistics() const;
    /// Returns the numbers of statistics() as one readable line. If next() had to wait, the line names the slowest
    /// stage.
    [[nodiscard]] std::string summary() const;
    /// Returns warnings, one line each. There is a line for each choice of options that wastes time or memory. There is
    /// also a line for the first event of each of these kinds: a batch without samples of this rank, an epoch without a
    /// batch, a copy that the cache could not keep, and a damaged copy. (The two lines about the cache appear at the
    /// end of an epoch.) The result is valid until the next call of next().
    [[nodiscard]] std::span<const std::string> warnings() const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace rueda::data
