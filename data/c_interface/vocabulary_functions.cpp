// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The functions of rueda/data.h for hashing and vocabularies.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/c_interface/guarded.hpp"
#include "data/c_interface/options_text.hpp"
#include "data/c_interface/vocabulary_handle.hpp"
#include "rueda/data/hash.hpp"

namespace rueda::data {

namespace {

using core::c_interface::check_place;
using core::c_interface::guarded;

std::span<const std::int64_t> integers_in(const rueda_data_terms& terms) { return {terms.integers, terms.count}; }
std::string_view bytes_in(const rueda_data_terms& terms) { return {terms.bytes, terms.byte_count}; }
std::span<const std::int64_t> offsets_in(const rueda_data_terms& terms) { return {terms.offsets, terms.count + 1}; }

Status check_terms(const rueda_data_terms* terms, const std::int64_t* ids) {
    RUEDA_RETURN_IF_FAILED(check_place(terms, "terms"));
    if (terms->count > 0) {
        RUEDA_RETURN_IF_FAILED(check_place(ids, "ids"));
    }
    if (terms->integers != nullptr) {
        return {};
    }
    if (terms->byte_count > 0) {
        RUEDA_RETURN_IF_FAILED(check_place(terms->bytes, "bytes of the texts"));
    }
    return check_place(terms->offsets, "offsets of the texts");
}

/// Gives the caller a copy of the bytes, followed by a zero byte. rueda_data_free_text() frees it.
Status give_bytes(std::string_view bytes, char** into) {
    auto* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
    if (copy == nullptr) {
        return failure(ErrorCode::resource_exhausted, "out of memory");
    }
    if (!bytes.empty()) {
        std::memcpy(copy, bytes.data(), bytes.size());
    }
    copy[bytes.size()] = '\0';
    *into = copy;
    return {};
}

/// Runs `body` on the vocabulary of a handle.
template <class Body>
int with_vocabulary(const rueda_data_vocabulary* handle, const Body& body) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(handle, "vocabulary"));
        return body(*handle->vocabulary);
    });
}

/// Returns the bytes that `make` makes of a vocabulary.
template <class Make>
int give_made(const rueda_data_vocabulary* handle, char** bytes, size_t* size, const Make& make) {
    return with_vocabulary(handle, [&](const Vocabulary& vocabulary) -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(bytes, "bytes"));
        RUEDA_RETURN_IF_FAILED(check_place(size, "number of bytes"));
        const std::string made = make(vocabulary);
        *size = made.size();
        return give_bytes(made, bytes);
    });
}

}  // namespace

}  // namespace rueda::data

extern "C" {

using rueda::Status;
using rueda::data::Vocabulary;

int rueda_data_hash(const rueda_data_terms* terms, uint64_t seed, int64_t buckets, int64_t* ids) {
    return rueda::data::guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_terms(terms, ids));
        const rueda::data::HashOptions options{buckets, seed};
        const std::span<int64_t> into(ids, terms->count);
        if (terms->integers != nullptr) {
            rueda::data::hash_integers(rueda::data::integers_in(*terms), options, into);
        } else {
            rueda::data::hash_texts(rueda::data::bytes_in(*terms), rueda::data::offsets_in(*terms), options, into);
        }
        return {};
    });
}

int rueda_data_vocabulary_open(const char* options, rueda_data_vocabulary** vocabulary) {
    return rueda::data::guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(options, "options"));
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(vocabulary, "vocabulary"));
        const auto read = rueda::data::vocabulary_from_text(options);
        RUEDA_RETURN_IF_FAILED(read.status());
        const rueda::data::VocabularyRequest& request = read.value();
        auto made =
            std::make_shared<Vocabulary>(request.path.empty() ? Vocabulary(request.terms, request.options)
                                                              : Vocabulary::from_file(request.path, request.options));
        *vocabulary = new rueda_data_vocabulary{std::move(made)};
        return {};
    });
}

int rueda_data_vocabulary_look_up(rueda_data_vocabulary* vocabulary, const rueda_data_terms* terms,
                                  int32_t count_unknown, int64_t* ids) {
    return rueda::data::with_vocabulary(vocabulary, [&](Vocabulary& used) -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_terms(terms, ids));
        const std::span<int64_t> into(ids, terms->count);
        const bool has_integers = terms->integers != nullptr;
        if (has_integers && count_unknown != 0) {
            used.look_up_and_count(rueda::data::integers_in(*terms), into);
        } else if (has_integers) {
            used.look_up(rueda::data::integers_in(*terms), into);
        } else if (count_unknown != 0) {
            used.look_up_and_count(rueda::data::bytes_in(*terms), rueda::data::offsets_in(*terms), into);
        } else {
            used.look_up(rueda::data::bytes_in(*terms), rueda::data::offsets_in(*terms), into);
        }
        return {};
    });
}

int rueda_data_vocabulary_describe(const rueda_data_vocabulary* vocabulary, char** text) {
    return rueda::data::with_vocabulary(vocabulary, [&](const Vocabulary& used) -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(text, "text"));
        const nlohmann::json json = {
            {"size", used.size()}, {"ids", used.ids()}, {"grows", used.grows()}, {"left_out", used.left_out()}};
        return rueda::data::give_bytes(json.dump(), text);
    });
}

int rueda_data_vocabulary_term(const rueda_data_vocabulary* vocabulary, int64_t id, const char** bytes, size_t* size) {
    return rueda::data::with_vocabulary(vocabulary, [&](const Vocabulary& used) -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(bytes, "bytes"));
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(size, "number of bytes"));
        const std::string_view term = used.term(id);
        *bytes = term.data();
        *size = term.size();
        return {};
    });
}

int rueda_data_vocabulary_unmerged(const rueda_data_vocabulary* vocabulary, char** bytes, size_t* size) {
    return rueda::data::give_made(vocabulary, bytes, size, [](const Vocabulary& used) { return used.unmerged(); });
}

int rueda_data_vocabulary_merge(rueda_data_vocabulary* vocabulary, const char* bytes, size_t size, int64_t* added) {
    return rueda::data::with_vocabulary(vocabulary, [&](Vocabulary& used) -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(bytes, "bytes"));
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(added, "number of new terms"));
        *added = used.merge({bytes, size});
        return {};
    });
}

int rueda_data_vocabulary_state(const rueda_data_vocabulary* vocabulary, char** bytes, size_t* size) {
    return rueda::data::give_made(vocabulary, bytes, size, [](const Vocabulary& used) { return used.state(); });
}

int rueda_data_vocabulary_restore(rueda_data_vocabulary* vocabulary, const char* bytes, size_t size) {
    return rueda::data::with_vocabulary(vocabulary, [&](Vocabulary& used) -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(bytes, "bytes"));
        used.restore({bytes, size});
        return {};
    });
}

int rueda_data_vocabulary_save(const rueda_data_vocabulary* vocabulary, const char* path) {
    return rueda::data::with_vocabulary(vocabulary, [&](const Vocabulary& used) -> Status {
        RUEDA_RETURN_IF_FAILED(rueda::data::check_place(path, "path"));
        used.save(path);
        return {};
    });
}

int rueda_data_vocabulary_freeze(rueda_data_vocabulary* vocabulary) {
    return rueda::data::with_vocabulary(vocabulary, [](Vocabulary& used) -> Status {
        used.freeze();
        return {};
    });
}

void rueda_data_vocabulary_close(rueda_data_vocabulary* vocabulary) { delete vocabulary; }

}  // extern "C"
