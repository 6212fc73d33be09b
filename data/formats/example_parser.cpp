// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/formats/feature_output.hpp"
#include "data/formats/parser.hpp"
#include "data/formats/wire.hpp"

namespace rueda::data {

namespace {

using wire::Cursor;

constexpr std::uint64_t kFeatures = wire::tag_of(1, wire::kLength);  ///< in Example
constexpr std::uint64_t kEntry = wire::tag_of(1, wire::kLength);     ///< in Features
constexpr std::uint64_t kKey = wire::tag_of(1, wire::kLength);       ///< the tag of the key, in an entry of the map
                                                                     ///< Features.feature
constexpr std::uint64_t kValue = wire::tag_of(2, wire::kLength);

/// A name that can be compared with keys fast, because its first eight bytes are stored as one number.
class FastName {
public:
    explicit FastName(std::string name) : name_(std::move(name)) {
        const std::size_t bytes = std::min(name_.size(), sizeof begin_);
        std::memcpy(&begin_, name_.data(), bytes);
        mask_ = bytes == sizeof mask_ ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
    }
    /// Whether `key` is this name. At least 8 bytes from the beginning of the key must be readable.
    [[nodiscard]] bool is(Cursor key) const noexcept {
        if (key.size() != name_.size()) {
            return false;
        }
        std::uint64_t begin = 0;
        if (!key.empty()) {
            std::memcpy(&begin, key.place, sizeof begin);
        }
        return (begin & mask_) == begin_ &&
               (name_.size() <= sizeof begin || std::memcmp(key.place, name_.data(), name_.size()) == 0);
    }

private:
    std::string name_;
    std::uint64_t begin_ = 0;
    std::uint64_t mask_ = 0;
};

/// Reads the messages of tf.train.Example without building them: values go from the record into the columns.
class ExampleParser final : public Parser {
public:
    explicit ExampleParser(const Examples& format) : check_data_(format.check_data) {
        for (const Feature& feature : format.features) {
            places_.emplace(feature.name, features_.size());
            features_.emplace_back(feature);
            names_.emplace_back(feature.name);
        }
        last_record_.resize(features_.size(), 0);
    }

    void begin(Batch& batch, std::size_t rows) override {
        // Adding a column can move the other columns in memory, so all columns are added before any of them is used.
        for (FeatureOutput& feature : features_) {
            feature.add_column(batch);
        }
        for (FeatureOutput& feature : features_) {
            feature.begin(batch.column(feature.feature().name), rows);
        }
    }
    Status parse(const Record& record, std::size_t row) override {
        if (check_data_) {
            RUEDA_RETURN_IF_FAILED(check_tfrecord(record));
        }
        ++record_;
        entry_ = 0;
        found_ = 0;
        RUEDA_RETURN_IF_FAILED(read_example({record.data, record.data + record.size}, row));
        return found_ == features_.size() ? Status() : fill_missing(row);
    }
    void end(std::size_t rows) override {
        for (FeatureOutput& feature : features_) {
            feature.end(rows);
        }
    }

private:
    static constexpr std::size_t kUnknown = ~std::size_t{0};

    /// Goes through the fields of the message. Calls `read` with the content of each field that has the tag `wanted`,
    /// and skips all other fields.
    template <class Read>
    Status read_fields(Cursor message, std::uint64_t wanted, const char* name, const Read& read) {
        while (!message.empty()) {
            std::uint64_t tag = 0;
            Cursor content;
            if (!wire::read_varint(message, tag) ||
                !(tag == wanted ? wire::read_length(message, content) : wire::skip_field(message, tag))) {
                return invalid(name);
            }
            if (tag == wanted) {
                RUEDA_RETURN_IF_FAILED(read(content));
            }
        }
        return {};
    }
    Status read_example(Cursor example, std::size_t row) {
        return read_fields(example, kFeatures, "Example",
                           [this, row](Cursor features) { return read_features(features, row); });
    }
    Status read_features(Cursor features, std::size_t row) {
        return read_fields(features, kEntry, "Features", [this, row](Cursor entry) { return read_entry(entry, row); });
    }
    /// Reads a key and its feature, which may come in any order. If one of them is absent, it counts as empty.
    Status read_entry(Cursor entry, std::size_t row) {
        Cursor key;
        Cursor value;
        while (!entry.empty()) {
            std::uint64_t tag = 0;
            if (!wire::read_varint(entry, tag)) {
                return invalid("FeatureEntry");
            }
            const bool is_valid = tag == kKey     ? wire::read_length(entry, key)
                                  : tag == kValue ? wire::read_length(entry, value)
                                                  : wire::skip_field(entry, tag);
            if (!is_valid) {
                return invalid("FeatureEntry");
            }
        }
        const std::size_t place = find(key);
        if (place == kUnknown) {
            return {};
        }
        if (last_record_[place] != record_ && features_[place].read_simple(value, row)) {
            last_record_[place] = record_;
            ++found_;
            return {};
        }
        return read_feature(place, value, row);
    }
    Status read_feature(std::size_t place, Cursor value, std::size_t row) {
        bool has_value = false;
        RUEDA_RETURN_IF_FAILED(features_[place].read(value, row, has_value));
        const bool was_found = last_record_[place] == record_;
        // If a record has the same key twice, the last entry counts, even if it has no value.
        last_record_[place] = has_value ? record_ : 0;
        found_ += static_cast<std::size_t>(has_value) - static_cast<std::size_t>(was_found);
        return {};
    }
    /// Finds the feature with the name `key`. Most records of a file have their keys in the same order. So this
    /// function first tries the feature that was last found in the same entry of a record. Usually the comparison with
    /// the name of this feature is enough.
    std::size_t find(Cursor key) {
        const std::size_t entry = entry_++;
        if (entry >= order_.size()) {
            order_.resize(entry + 1, kUnknown);
        }
        const std::size_t expected = order_[entry];
        if (expected != kUnknown && names_[expected].is(key)) {
            return expected;
        }
        const auto found = places_.find(std::string_view(key.place, key.size()));
        if (found == places_.end()) {
            return kUnknown;
        }
        return order_[entry] = found->second;
    }
    Status fill_missing(std::size_t row) {
        for (std::size_t place = 0; place < features_.size(); ++place) {
            if (last_record_[place] != record_) {
                RUEDA_RETURN_IF_FAILED(features_[place].fill_missing(row));
            }
        }
        return {};
    }
    static Status invalid(std::string_view message) {
        return failure(ErrorCode::invalid_argument,
                       "the record is not a serialized tf.train.Example: a tag or a length in its message {} is wrong; "
                       "expected an Example; read other records with the format Tfrecords",
                       message);
    }

    struct HashText {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
    };

    bool check_data_;
    std::vector<FeatureOutput> features_;
    std::vector<FastName> names_;  ///< the names of the features
    std::unordered_map<std::string, std::size_t, HashText, std::equal_to<>> places_;
    /// Element n is the feature that was last found in the n-th entry of a record.
    std::vector<std::size_t> order_;
    std::vector<std::uint64_t> last_record_;  ///< element n is the number of the last record that had feature n
    std::uint64_t record_ = 0;                ///< the number of the current record, from 1
    std::size_t entry_ = 0;                   ///< number of entries of the record that were read
    std::size_t found_ = 0;                   ///< number of wanted features that the record has
};

Status check_feature(const Feature& feature) {
    if (feature.dtype != DType::float32 && feature.dtype != DType::int64 && feature.dtype != DType::uint8) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: feature '{}' has dtype {}; a tf.train.Example has only float32, int64, and uint8 for bytes",
            feature.name, name_of(feature.dtype));
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 28;  // this limit lets the sizes of columns fit into 64 bits
    if (feature.length < 0 || feature.length > kMost) {
        return failure(ErrorCode::invalid_argument, "pipeline: feature '{}' has length {}; expected 0 to {}",
                       feature.name, feature.length, kMost);
    }
    return check_missing(feature.name, feature.dtype, feature.missing);
}

}  // namespace

Result<std::unique_ptr<Parser>> make_example_parser(const Examples& format) {
    std::unordered_map<std::string, int> seen;
    for (const Feature& feature : format.features) {
        RUEDA_RETURN_IF_FAILED(check_feature(feature));
        if (seen[feature.name]++ > 0) {
            return failure(ErrorCode::invalid_argument, "pipeline: the feature '{}' is listed twice", feature.name);
        }
    }
    if (format.features.empty()) {
        return failure(ErrorCode::invalid_argument, "pipeline: Examples lists no feature; expected at least one");
    }
    return std::unique_ptr<Parser>(std::make_unique<ExampleParser>(format));
}

}  // namespace rueda::data
