// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/formats/feature_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace rueda::data {

namespace {

using wire::Cursor;

constexpr std::uint64_t kBytesList = wire::tag_of(1, wire::kLength);
constexpr std::uint64_t kFloatList = wire::tag_of(2, wire::kLength);
constexpr std::uint64_t kIntegerList = wire::tag_of(3, wire::kLength);
/// The tags of a single value in a list. In each kind of list, field 1 has the values.
constexpr std::uint64_t kSingleFloat = wire::tag_of(1, wire::kFixed32);
constexpr std::uint64_t kSingleInteger = wire::tag_of(1, wire::kVarint);

std::uint64_t list_tag_of(DType dtype) {
    if (dtype == DType::uint8) {
        return kBytesList;
    }
    return dtype == DType::int64 ? kIntegerList : kFloatList;
}

std::string list_name_of(std::uint64_t tag) {
    constexpr std::array kListNames = {"a bytes_list", "a float_list", "an int64_list"};
    const std::uint64_t field = tag >> 3;
    return field >= 1 && field <= 3 ? kListNames[field - 1] : fmt::format("the unknown field {}", field);
}

}  // namespace

FeatureOutput::FeatureOutput(Feature feature) : feature_(std::move(feature)) {
    if (!is_ragged() && feature_.dtype != DType::uint8) {
        simple_tag_ = list_tag_of(feature_.dtype);
    }
}

void FeatureOutput::add_column(Batch& batch) const {
    const std::int64_t least = feature_.dtype == DType::uint8 ? 1 : 0;
    batch.add_column(feature_.name, feature_.dtype, std::max(feature_.length, least));
}

void FeatureOutput::begin(Column& column, std::size_t rows) {
    if (feature_.dtype == DType::uint8) {
        texts_ = TextOutput(column, rows * static_cast<std::size_t>(column.width));
    } else if (is_ragged()) {
        offsets_ = OffsetOutput(column, rows);
        ragged_floats_ = GrowingOutput<float>(column);
        ragged_integers_ = GrowingOutput<std::int64_t>(column);
    } else if (feature_.dtype == DType::float32) {
        floats_ = FixedOutput<float>(column, rows);
    } else {
        integers_ = FixedOutput<std::int64_t>(column, rows);
    }
}

Status FeatureOutput::read(Cursor message, std::size_t row, bool& has_value) {
    has_value = false;
    while (!message.empty()) {
        std::uint64_t tag = 0;
        Cursor list;
        if (!wire::read_varint(message, tag) || (tag & 7) != wire::kLength || !wire::read_length(message, list)) {
            return invalid_list();
        }
        if (tag != list_tag_of(feature_.dtype)) {
            return failure(ErrorCode::invalid_argument,
                           "feature '{}' has {}, expected {} for dtype {}; correct the feature's dtype in Examples",
                           feature_.name, list_name_of(tag), list_name_of(list_tag_of(feature_.dtype)),
                           name_of(feature_.dtype));
        }
        has_value = true;
        RUEDA_RETURN_IF_FAILED(tag == kFloatList ? read_numbers(list, row, kSingleFloat, &FeatureOutput::append_floats)
                               : tag == kIntegerList
                                   ? read_numbers(list, row, kSingleInteger, &FeatureOutput::append_integers)
                                   : read_texts(list, row));
    }
    return {};
}

/// Reads a list of numbers. The writer of the message may pack several numbers into one field, or write `single_tag`
/// before each number.
Status FeatureOutput::read_numbers(Cursor list, std::size_t row, std::uint64_t single_tag, Append append) {
    std::size_t count = 0;
    while (!list.empty()) {
        std::uint64_t tag = 0;
        Cursor values;
        if (!wire::read_varint(list, tag) || (tag != kPackedTag && tag != single_tag)) {
            return invalid_list();
        }
        if (tag == kPackedTag) {
            if (!wire::read_length(list, values)) {
                return invalid_list();
            }
        } else {
            values.place = list.place;
            if (!wire::skip_field(list, tag)) {
                return invalid_list();
            }
            values.end = list.place;
        }
        RUEDA_RETURN_IF_FAILED((this->*append)(values, row, count));
    }
    if (is_ragged()) {
        offsets_.set_end(row, offsets_.begin_of(row) + count);
        return {};
    }
    return check_count(count);
}

Status FeatureOutput::append_floats(Cursor packed, std::size_t row, std::size_t& count) {
    const std::size_t more = packed.size() / sizeof(float);
    if (packed.size() % sizeof(float) != 0) {
        return invalid_list();
    }
    if (is_ragged()) {
        float* const place = ragged_floats_.reserve(offsets_.begin_of(row) + count, more);
        if (more > 0) {  // memcpy must not get a null pointer, and `place` is null in an empty column
            std::memcpy(place, packed.place, packed.size());
        }
    } else if (count + more <= length()) {
        std::memcpy(floats_.row(row) + count, packed.place, packed.size());
    }
    count += more;  // if there are too many values, they are not copied, and check_count() reports their number
    return {};
}

Status FeatureOutput::append_integers(Cursor packed, std::size_t row, std::size_t& count) {
    // A value takes at least one byte, so `packed` has at most as many values as bytes.
    std::int64_t* const place = is_ragged() ? ragged_integers_.reserve(offsets_.begin_of(row) + count, packed.size())
                                            : integers_.row(row) + std::min(count, length());
    const std::size_t room = is_ragged() ? packed.size() : length() - std::min(count, length());
    std::size_t more = 0;
    std::uint64_t value = 0;
    while (!packed.empty()) {
        if (!wire::read_any_varint(packed, value)) {
            return invalid_list();
        }
        if (more < room) {
            place[more] = static_cast<std::int64_t>(value);
        }
        ++more;
    }
    count += more;
    return {};
}

Status FeatureOutput::read_texts(Cursor list, std::size_t row) {
    const std::size_t width = std::max<std::size_t>(length(), 1);
    std::size_t count = 0;
    while (!list.empty()) {
        std::uint64_t tag = 0;
        Cursor text;
        if (!wire::read_varint(list, tag) || tag != kPackedTag || !wire::read_length(list, text)) {
            return invalid_list();
        }
        if (count < width) {
            texts_.put(row * width + count, {text.place, text.size()});
        }
        ++count;
    }
    if (is_ragged() && count == 0) {
        return fill_missing(row);
    }
    return is_ragged() && count == 1 ? Status() : check_count(count);
}

Status FeatureOutput::fill_missing(std::size_t row) {
    if (is_ragged()) {
        if (feature_.dtype == DType::uint8) {
            texts_.put(row, {});
        } else {
            offsets_.set_end(row, offsets_.begin_of(row));
        }
        return {};
    }
    if (!feature_.missing.has_value() || feature_.dtype == DType::uint8) {
        return failure(ErrorCode::invalid_argument,
                       "feature '{}' is missing; expected it in every sample; if samples may lack it, set {}",
                       feature_.name, feature_.dtype == DType::uint8 ? "length = 0" : "Feature::missing or length = 0");
    }
    if (feature_.dtype == DType::float32) {
        std::fill_n(floats_.row(row), length(), static_cast<float>(*feature_.missing));
    } else {
        std::fill_n(integers_.row(row), length(), static_cast<std::int64_t>(*feature_.missing));
    }
    return {};
}

void FeatureOutput::end(std::size_t rows) {
    if (feature_.dtype == DType::uint8) {
        texts_.end(rows * std::max<std::size_t>(length(), 1));
    } else if (is_ragged()) {
        const std::size_t values = offsets_.end(rows);
        if (feature_.dtype == DType::float32) {
            ragged_floats_.end(values);
        } else {
            ragged_integers_.end(values);
        }
    } else if (feature_.dtype == DType::float32) {
        floats_.end(rows);
    } else {
        integers_.end(rows);
    }
}

Status FeatureOutput::check_count(std::size_t count) const {
    if (count == std::max<std::size_t>(length(), 1)) {
        return {};
    }
    return failure(
        ErrorCode::invalid_argument,
        "feature '{}' has {} values, expected {}; correct the feature's length in Examples, or set it to 0 if "
        "the number differs",
        feature_.name, count, std::max<std::size_t>(length(), 1));
}

Status FeatureOutput::invalid_list() const {
    return failure(
        ErrorCode::invalid_argument,
        "feature '{}' is not a valid tf.train.Feature message: a tag or a length is wrong; write the file again",
        feature_.name);
}

}  // namespace rueda::data
