// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Vocabularies: numbers for the texts of a feature.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/data/batch.hpp"

namespace rueda::data {

/// The options of a Vocabulary. The ids 0 to most_terms − 1 are reserved for terms. Unknown texts get ids from
/// most_terms on. The id of a term therefore never changes when the vocabulary grows. An embedding table needs
/// Vocabulary::ids() rows.
struct VocabularyOptions {
    /// The largest number of terms. 0 stands for the number of terms at the beginning, and is not allowed if `grows` is
    /// true.
    std::int64_t most_terms = 0;
    /// The number of ids for unknown texts. An unknown text has the id most_terms + bucket_of(hash_text(text, seed),
    /// unknown_buckets). With 1, all unknown texts have the same id. With 0, their id is −1.
    std::int64_t unknown_buckets = 1;
    std::uint64_t seed = 0;  ///< the seed of the hash that chooses the bucket of an unknown text
    /// If true, the vocabulary counts unknown texts, and merge() makes the most frequent of them terms
    bool grows = false;
    /// merge() makes a term of a text that all ranks together have counted at least this many times
    std::int64_t min_count = 1;
    /// The largest number of different unknown texts that are counted, which limits the memory. Further texts are left
    /// out; Vocabulary::left_out() counts them.
    std::int64_t most_unknown = 1'000'000;
};

/// Gives each text of a feature a number, its id. Known texts are called terms. The id of a term is its position in the
/// list of terms, counted from 0.
///
/// A frozen vocabulary never changes. A growing vocabulary counts the unknown texts that look_up_and_count() finds.
/// From time to time, all ranks exchange their counts (rueda/data/agree.hpp), and the most frequent texts become terms.
/// The ids depend on the sums of the counts alone. Neither the number of ranks nor the order of the texts matters.
///
/// A term is a text of 1 to 65,535 bytes in UTF-8. It contains no newline and no carriage return, and does not begin
/// with a byte-order mark. Other texts are always unknown, and are not counted. An integer counts as its decimal text.
///
/// Threads: several threads may call const functions at the same time, as long as no thread changes the vocabulary.
class RUEDA_API Vocabulary {
public:
    /// Makes a vocabulary of these terms. Throws InvalidArgument if an option is out of its range, if a text cannot be
    /// a term or is repeated, or if there are more than most_terms terms. A frozen vocabulary must have at least one
    /// term.
    explicit Vocabulary(std::span<const std::string> terms, const VocabularyOptions& options = {});
    /// Reads the terms from a text file that has one term in each line. A carriage return at the end of a line and a
    /// byte-order mark at the beginning are ignored. A file whose name ends with ".gz" or ".zst" is decompressed.
    /// Throws InvalidArgument if the file cannot be read, and for the same reasons as the constructor; the message then
    /// has the number of the line.
    [[nodiscard]] static Vocabulary from_file(const std::string& path, const VocabularyOptions& options = {});
    Vocabulary(Vocabulary&&) noexcept;
    Vocabulary& operator=(Vocabulary&&) noexcept;
    ~Vocabulary();

    /// The number of terms.
    [[nodiscard]] std::int64_t size() const noexcept;
    /// The number of ids: most_terms + unknown_buckets.
    [[nodiscard]] std::int64_t ids() const noexcept;
    [[nodiscard]] bool grows() const noexcept;
    /// Returns a term. The text is valid until the vocabulary changes. Throws InvalidArgument unless 0 ≤ id < size().
    [[nodiscard]] std::string_view term(std::int64_t id) const;
    [[nodiscard]] std::int64_t id_of(std::string_view text) const noexcept;

    /// Finds the id of each text. Text i has the bytes offsets[i] … offsets[i + 1] − 1. Throws InvalidArgument if the
    /// offsets decrease or point outside the bytes, or if `into` does not have one element for each text.
    void look_up(std::string_view bytes, std::span<const std::int64_t> offsets, std::span<std::int64_t> into) const;
    /// Finds the id of each integer. `into` may be the same memory as `integers`.
    void look_up(std::span<const std::int64_t> integers, std::span<std::int64_t> into) const;
    /// Replaces the texts or the integers of a column by their ids, as hash_column() does.
    void look_up(Column& column) const;
    /// The look_up_and_count() functions do the same as look_up(). A growing vocabulary also counts the unknown texts.
    /// Call these functions in the order of the batches, so that a resumed job counts the same texts.
    void look_up_and_count(std::string_view bytes, std::span<const std::int64_t> offsets, std::span<std::int64_t> into);
    void look_up_and_count(std::span<const std::int64_t> integers, std::span<std::int64_t> into);
    void look_up_and_count(Column& column);
    /// Looks up and counts the first `counted` rows of the column. The ids of the other rows become 0. Use this
    /// function, with Batch::counted(), for batches with padding (Remainder::pad), because the functions above would
    /// count the padding. Throws InvalidArgument if `counted` is negative.
    void look_up_and_count(Column& column, std::int64_t counted);

    /// Returns the texts that this rank has counted since the last merge(), with their counts, as bytes for merge().
    [[nodiscard]] std::string unmerged() const;
    /// Makes the most frequent texts terms. `messages` has the unmerged() bytes of all ranks, including this rank,
    /// concatenated in the order of the ranks. Texts with a higher count come first; texts with equal counts are sorted
    /// by their bytes. Returns the number of new terms. Throws InvalidArgument, on all ranks, if the ranks'
    /// vocabularies differ, if this rank's vocabulary changed since unmerged(), or if the bytes are missing or damaged.
    /// After an error, the vocabulary is unchanged.
    std::int64_t merge(std::string_view messages);
    /// How many unknown texts were not counted because of most_unknown.
    [[nodiscard]] std::int64_t left_out() const noexcept;
    /// Makes this vocabulary a frozen one, and forgets all counts.
    void freeze() noexcept;

    /// Writes the terms as a file for from_file(). The file appears at its path only when it is complete and flushed to
    /// the disk. Throws ResourceExhausted if the disk is full, and InvalidArgument if the file cannot be written.
    void save(const std::string& path) const;
    /// Returns terms and counts as a text in UTF-8, for a checkpoint. These are the terms and counts after the last
    /// merge(), so the text is the same on all ranks. The text does not have what this rank has counted since the last
    /// merge(). If this rank has counted anything since then, the first call logs a warning.
    [[nodiscard]] std::string state() const;
    /// Continues with the terms and counts of state(). If the saved vocabulary was frozen, this vocabulary becomes
    /// frozen, too. Throws InvalidArgument if the text is damaged, or if the saved vocabulary had another most_terms,
    /// unknown_buckets or seed. A frozen vocabulary also throws it if the saved terms differ from its own. After an
    /// error, this vocabulary is unchanged.
    void restore(std::string_view state);

private:
    struct Parts;
    Vocabulary() noexcept = default;

    std::unique_ptr<Parts> parts_;
};

/// Returns a function for PipelineOptions::maps that replaces the texts or integers of these columns by their ids.
/// Throws InvalidArgument for a growing vocabulary: the pipeline prepares batches in advance, so the ids in a batch
/// would depend on timing. Instead, call look_up_and_count() for each batch that next() returns.
[[nodiscard]] RUEDA_API std::function<void(Batch&)> look_up_columns(std::vector<std::string> columns,
                                                                    std::shared_ptr<const Vocabulary> vocabulary);

}  // namespace rueda::data
