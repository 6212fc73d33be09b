// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/data/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "base/system/atomic_file.hpp"
#include "base/system/process_logger.hpp"
#include "data/terms/term_counts.hpp"
#include "data/terms/term_table.hpp"
#include "data/terms/vocabulary_text.hpp"
#include "rueda/data/hash.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

// The functions are defined inside the struct, so the library does not export them.
struct Vocabulary::Parts {
    explicit Parts(const VocabularyOptions& given) : options(given), state(given.seed) { state.grows = given.grows; }

    [[nodiscard]] IdLayout layout() const noexcept {
        return {options.most_terms, options.unknown_buckets, options.seed};
    }
    [[nodiscard]] std::int64_t unknown_id(std::uint64_t hash) const noexcept {
        return options.unknown_buckets == 0 ? -1 : options.most_terms + bucket_of(hash, options.unknown_buckets);
    }
    [[nodiscard]] bool is_full() const noexcept { return state.table.size() == options.most_terms; }
    /// Returns a hash of everything that must be equal on all ranks before they merge their counts.
    [[nodiscard]] std::uint64_t fingerprint() const {
        // The sum does not depend on the order of the hash table, which differs among ranks.
        std::uint64_t sum = 0;
        for (const auto& [text, count] : state.candidates) {
            sum += hash_text(text, static_cast<std::uint64_t>(count));
        }
        const std::string facts = fmt::format("{} {} {} {} {} {} {} {} {}", options.most_terms, options.unknown_buckets,
                                              options.seed, state.grows, options.min_count, options.most_unknown,
                                              state.table.size(), state.table.digest(), sum);
        return hash_text(facts);
    }
    /// Counts a text that is no term.
    void note(std::string_view text) {
        // Empty texts are frequent, because they often stand for missing values. So `text.empty()` is checked before
        // the checks that take longer.
        if (!state.grows || is_full() || text.empty()) {
            return;
        }
        if (const auto found = unmerged.find(text); found != unmerged.end()) {
            found->second = std::min(found->second + 1, kLargestCount);
        } else if (!why_no_term(text)) {
            if (static_cast<std::int64_t>(unmerged.size()) < options.most_unknown) {
                unmerged.emplace(text, 1);
            } else {
                ++left_out;
            }
        }
    }
    /// Replaces the candidates (the counts that all ranks know) by the first counts of `sorted`, at most
    /// `most_unknown`.
    void keep_candidates(std::span<const TermCount> sorted) {
        TermCounts kept;
        if (state.grows && !is_full()) {  // in any other vocabulary, no further text can become a term
            const auto most = std::min(sorted.size(), static_cast<std::size_t>(options.most_unknown));
            for (const TermCount& each : sorted.first(most)) {
                kept.emplace(each.text, each.count);
            }
            for (const TermCount& each : sorted.subspan(most)) {
                left_out = std::min(left_out + each.count, kLargestCount);
            }
        }
        state.candidates = std::move(kept);
    }

    VocabularyOptions options;
    VocabularyState state;
    TermCounts unmerged;  ///< what this rank has counted since the last merge()
    std::int64_t left_out = 0;
    /// Whether state() has logged its warning. Accesses are relaxed, because no other data depends on this flag.
    std::atomic<bool> has_warned = false;
};

namespace {

Status check_vocabulary_options(const VocabularyOptions& options) {
    if (options.most_terms < 0 || options.most_terms > TermTable::kMostTerms) {
        return failure(ErrorCode::invalid_argument, "vocabulary: most_terms is {}; it must be 0 to {}",
                       options.most_terms, TermTable::kMostTerms);
    }
    if (options.grows && options.most_terms == 0) {
        return failure(ErrorCode::invalid_argument,
                       "vocabulary: it grows, and most_terms is 0; say how many terms it may have");
    }
    if (options.unknown_buckets < 0 || options.unknown_buckets > TermTable::kMostTerms) {
        return failure(ErrorCode::invalid_argument, "vocabulary: unknown_buckets is {}; it must be 0 to {}",
                       options.unknown_buckets, TermTable::kMostTerms);
    }
    if (options.min_count < 1 || options.most_unknown < 1) {
        return failure(ErrorCode::invalid_argument,
                       "vocabulary: min_count is {} and most_unknown is {}; both must be 1 or more", options.min_count,
                       options.most_unknown);
    }
    return {};
}

/// The largest number of terms. If `most_terms` is 0, the caller wants as many terms as possible.
std::int64_t room_for_terms(const VocabularyOptions& options) {
    return options.most_terms == 0 ? TermTable::kMostTerms : options.most_terms;
}

/// Checks the finished list of terms. If the option `most_terms` is 0, sets it to the length of the list.
Status complete_terms(VocabularyOptions& options, const TermTable& table, std::string_view what) {
    if (table.size() == 0 && !options.grows) {
        return failure(ErrorCode::invalid_argument,
                       "{}: there is no term; expected at least one, because the vocabulary does not grow", what);
    }
    if (options.most_terms == 0) {
        options.most_terms = table.size();
    }
    return {};
}

std::string read_whole_file(const std::string& path) {
    ByteReader reader(Source{path, SourceKind::file, FileCompression::automatic, nullptr});
    std::string content;
    std::size_t size = 0;
    do {
        constexpr std::size_t kPiece = std::size_t{1} << 20;
        content.resize(size + kPiece);
        const std::size_t count = reader.read(std::as_writable_bytes(std::span(content).subspan(size)));
        size += count;
        content.resize(size);
        if (count == 0) {
            return content;
        }
    } while (true);
}

/// Returns a function that finds the ids of a block, and calls `on_unknown` for each text that is no term.
template <class OnUnknown>
auto into_ids(const TermTable& table, OnUnknown on_unknown) {
    return [&table, on_unknown](std::span<const std::string_view> terms, std::span<std::int64_t> ids) {
        std::array<std::uint64_t, kTermBlock> hashes;  // NOLINT(cppcoreguidelines-pro-type-member-init): find_block()
        table.find_block(terms, ids, hashes);          // fills it
        for (std::size_t i = 0; i < terms.size(); ++i) {
            if (ids[i] == TermTable::kUnknown) {
                ids[i] = on_unknown(terms[i], hashes[i]);
            }
        }
    };
}

void warn_about_unmerged(std::size_t texts) {
    base::process_logger().warning(
        "vocabulary: this rank has counted {} different unknown texts since the last agreement, and the saved state "
        "lacks these counts; to keep them, call agree() on all ranks before each checkpoint (a vocabulary logs this "
        "warning once)",
        texts);
}

template <class Parts>
auto finding_ids(const Parts& parts) {
    return into_ids(parts.state.table,
                    [&parts](std::string_view /*text*/, std::uint64_t hash) { return parts.unknown_id(hash); });
}

template <class Parts>
auto counting_unknown(Parts& parts) {
    return into_ids(parts.state.table, [&parts](std::string_view text, std::uint64_t hash) {
        parts.note(text);
        return parts.unknown_id(hash);
    });
}

}  // namespace

Vocabulary::Vocabulary(std::span<const std::string> terms, const VocabularyOptions& options) {
    check_vocabulary_options(options).throw_if_failed();
    parts_ = std::make_unique<Parts>(options);
    const TermOrigin origin{"making a vocabulary", "term", 0};
    for (const std::string& term : terms) {
        add_term(parts_->state.table, term, room_for_terms(options), origin).throw_if_failed();
    }
    complete_terms(parts_->options, parts_->state.table, origin.what).throw_if_failed();
}

Vocabulary Vocabulary::from_file(const std::string& path, const VocabularyOptions& options) {
    check_vocabulary_options(options).throw_if_failed();
    auto parts = std::make_unique<Parts>(options);
    read_term_lines(read_whole_file(path), path, room_for_terms(options), parts->state.table).throw_if_failed();
    complete_terms(parts->options, parts->state.table, fmt::format("reading the vocabulary '{}'", path))
        .throw_if_failed();
    Vocabulary vocabulary;
    vocabulary.parts_ = std::move(parts);
    return vocabulary;
}

Vocabulary::Vocabulary(Vocabulary&&) noexcept = default;
Vocabulary& Vocabulary::operator=(Vocabulary&&) noexcept = default;
Vocabulary::~Vocabulary() = default;

std::int64_t Vocabulary::size() const noexcept { return parts_->state.table.size(); }
std::int64_t Vocabulary::ids() const noexcept { return parts_->options.most_terms + parts_->options.unknown_buckets; }
bool Vocabulary::grows() const noexcept { return parts_->state.grows; }
std::int64_t Vocabulary::left_out() const noexcept { return parts_->left_out; }

std::string_view Vocabulary::term(std::int64_t id) const {
    if (id < 0 || id >= size()) {
        throw InvalidArgument(fmt::format("vocabulary: there is no term {}; there are {} terms", id, size()));
    }
    return parts_->state.table.term(id);
}

std::int64_t Vocabulary::id_of(std::string_view text) const noexcept {
    const std::uint64_t hash = parts_->state.table.hash(text);
    const std::int32_t id = parts_->state.table.find(text, hash);
    return id == TermTable::kUnknown ? parts_->unknown_id(hash) : id;
}

void Vocabulary::look_up(std::string_view bytes, std::span<const std::int64_t> offsets,
                         std::span<std::int64_t> into) const {
    process_blocks(TextTerms(bytes, offsets), into, finding_ids(*parts_)).throw_if_failed();
}

void Vocabulary::look_up(std::span<const std::int64_t> integers, std::span<std::int64_t> into) const {
    process_blocks(IntegerTerms(integers), into, finding_ids(*parts_)).throw_if_failed();
}

void Vocabulary::look_up(Column& column) const { process_column(column, finding_ids(*parts_)).throw_if_failed(); }

void Vocabulary::look_up_and_count(std::string_view bytes, std::span<const std::int64_t> offsets,
                                   std::span<std::int64_t> into) {
    process_blocks(TextTerms(bytes, offsets), into, counting_unknown(*parts_)).throw_if_failed();
}

void Vocabulary::look_up_and_count(std::span<const std::int64_t> integers, std::span<std::int64_t> into) {
    process_blocks(IntegerTerms(integers), into, counting_unknown(*parts_)).throw_if_failed();
}

void Vocabulary::look_up_and_count(Column& column) {
    process_column(column, counting_unknown(*parts_)).throw_if_failed();
}

void Vocabulary::look_up_and_count(Column& column, std::int64_t counted) {
    if (counted < 0) {
        throw InvalidArgument(fmt::format(
            "vocabulary: {} rows are to be counted; expected 0 or more, as Batch::counted() returns", counted));
    }
    // In a ragged column, rows of padding have no values, so all values of the column are counted.
    constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
    std::int64_t left = column.width == 0 || counted > kAll / column.width ? kAll : counted * column.width;
    const auto count_first = [&left, count = counting_unknown(*parts_)](std::span<const std::string_view> terms,
                                                                        std::span<std::int64_t> ids) {
        const auto first = std::min(terms.size(), static_cast<std::size_t>(left));
        if (first > 0) {
            count(terms.first(first), ids.first(first));
        }
        std::ranges::fill(ids.subspan(first), 0);
        left -= static_cast<std::int64_t>(first);
    };
    process_column(column, count_first).throw_if_failed();
}

std::string Vocabulary::unmerged() const { return to_message(parts_->fingerprint(), parts_->unmerged); }

std::int64_t Vocabulary::merge(std::string_view messages) {
    const auto read = read_messages(messages);
    read.status().throw_if_failed();
    const std::vector<CountMessage>& ranks = read.value();
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        if (ranks[rank].fingerprint != ranks.front().fingerprint) {
            throw InvalidArgument(fmt::format(
                "vocabulary: the vocabulary of rank {} differs from that of rank 0 (its terms, its options, or "
                "the counts of earlier agreements); make it from the same file with the same options on all "
                "ranks, and let all ranks agree at the same points",
                rank));
        }
    }
    // The messages must come from the present state of this vocabulary. Messages from another state do not have its
    // unmerged counts, so these counts would be lost.
    if (ranks.empty() || ranks.front().fingerprint != parts_->fingerprint()) {
        throw InvalidArgument(
            ranks.empty() ? "vocabulary: merge() got no bytes; give it the bytes that unmerged() returned on all ranks"
                          : "vocabulary: merge() got counts of another vocabulary, or of this vocabulary before it "
                            "changed; give it the bytes that unmerged() returned on all ranks");
    }
    TermCounts totals = parts_->state.candidates;
    for (const CountMessage& message : ranks) {
        for (const TermCount& each : message.counts) {
            if (parts_->state.table.find(each.text, parts_->state.table.hash(each.text)) == TermTable::kUnknown) {
                add_count(totals, each.text, each.count);
            }
        }
    }
    const std::vector<TermCount> sorted = in_order(totals);
    std::size_t added = 0;
    while (parts_->state.grows && added < sorted.size() && sorted[added].count >= parts_->options.min_count &&
           !parts_->is_full()) {
        parts_->state.table.add(sorted[added++].text);
    }
    parts_->keep_candidates(std::span(sorted).subspan(added));
    parts_->unmerged.clear();
    return static_cast<std::int64_t>(added);
}

void Vocabulary::freeze() noexcept {
    parts_->state.grows = false;
    parts_->unmerged.clear();
    parts_->state.candidates.clear();
}

void Vocabulary::save(const std::string& path) const {
    auto file = base::AtomicFile::create(path);
    file.status().throw_if_failed();
    std::string piece;
    const auto flush = [&] {
        file.value().write(std::as_bytes(std::span(piece))).throw_if_failed();
        piece.clear();
    };
    for (std::int64_t id = 0; id < size(); ++id) {
        piece.append(term(id)).push_back('\n');
        constexpr std::size_t kPiece = std::size_t{1} << 20;
        if (piece.size() >= kPiece) {
            flush();
        }
    }
    flush();
    file.value().commit().throw_if_failed();
}

std::string Vocabulary::state() const {
    if (!parts_->unmerged.empty() && !parts_->has_warned.exchange(true, std::memory_order_relaxed)) {
        warn_about_unmerged(parts_->unmerged.size());
    }
    return to_text(parts_->state, parts_->layout());
}

void Vocabulary::restore(std::string_view state) {
    VocabularyState read(parts_->options.seed);
    read_state(state, parts_->layout(), read).throw_if_failed();
    // A frozen vocabulary must not change, because threads of pipelines may be looking up texts.
    if (parts_->state.grows) {
        parts_->state = std::move(read);
        parts_->unmerged.clear();
    } else if (read.table.digest() != parts_->state.table.digest()) {
        throw InvalidArgument(
            "vocabulary: the state has other terms than this vocabulary, which is frozen; make a vocabulary that "
            "grows, "
            "restore() the state, and then freeze() it");
    }
}

std::function<void(Batch&)> look_up_columns(std::vector<std::string> columns,
                                            std::shared_ptr<const Vocabulary> vocabulary) {
    if (vocabulary == nullptr || vocabulary->grows()) {
        throw InvalidArgument(vocabulary == nullptr
                                  ? "vocabulary: look_up_columns() got none"
                                  : "vocabulary: it grows, and the pipeline prepares batches ahead, so it would depend "
                                    "on timing which terms a batch finds; call look_up_and_count() for the columns of "
                                    "each batch that next() returns, or freeze() the vocabulary first");
    }
    return [columns = std::move(columns), vocabulary = std::move(vocabulary)](Batch& batch) {
        for (const std::string& name : columns) {
            vocabulary->look_up(batch.column(name));
        }
    };
}

}  // namespace rueda::data
