// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// TensorBoard's event files: TFRecord files whose records are messages tensorflow.Event. The numbers of the fields are
// those of tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "rueda/data/tfrecord.hpp"
#include "training/metrics/appended_file.hpp"
#include "training/metrics/metric_files.hpp"

namespace rueda::training {

namespace {

/// Writes the fields of a protocol buffer's message. The low three bits of a field's tag say how its value is stored.
class EventMessage {
public:
    EventMessage& add_varint(unsigned field, std::uint64_t value) {
        append_varint(field << 3);
        append_varint(value);
        return *this;
    }
    EventMessage& add_double(unsigned field, double value) { return add_fixed(field << 3 | 1, value); }
    EventMessage& add_float(unsigned field, float value) { return add_fixed(field << 3 | 5, value); }
    EventMessage& add_bytes(unsigned field, std::string_view bytes) {
        append_varint(field << 3 | 2);
        append_varint(bytes.size());
        text_.append(bytes);
        return *this;
    }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
    template <class T>
    EventMessage& add_fixed(unsigned tag, T value) {
        append_varint(tag);
        std::array<char, sizeof value> bytes{};
        std::memcpy(bytes.data(), &value, sizeof value);
        text_.append(bytes.data(), bytes.size());
        return *this;
    }
    void append_varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7) {
            text_.push_back(static_cast<char>(value | 0x80));
        }
        text_.push_back(static_cast<char>(value));
    }

    std::string text_;
};

/// Returns an Event with its time and step, as a record of the file.
std::string event_record(double time, std::int64_t step, unsigned field, std::string_view content) {
    EventMessage event;
    event.add_double(1, time).add_varint(2, static_cast<std::uint64_t>(step)).add_bytes(field, content);
    return data::tfrecord_frame(event.text());
}

constexpr unsigned kFileVersion = 3;
constexpr unsigned kSummary = 5;
constexpr unsigned kSessionLog = 7;

class EventFile final : public MetricFile {
public:
    explicit EventFile(AppendedFile file) : file_(std::move(file)) {}

    Status write(const MetricsOfStep& metrics) override {
        EventMessage summary;
        for (const Metric& metric : metrics.metrics) {
            const EventMessage value =
                EventMessage().add_bytes(1, metric.name).add_float(2, static_cast<float>(metric.value));
            summary.add_bytes(1, value.text());
        }
        return file_.append(event_record(metrics.time, metrics.step, kSummary, summary.text()));
    }
    Status close() override { return file_.close(); }

private:
    AppendedFile file_;
};

/// TensorBoard reads the files of a folder in the order of their names, so the name begins with the time.
std::filesystem::path event_path(const std::filesystem::path& folder, double time) {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) {
        host = {"host"};
    }
    std::filesystem::path path;
    int number = 0;
    do {
        path = folder / fmt::format("events.out.tfevents.{:010.0f}.{}.{}.{}", std::floor(time), host.data(), ::getpid(),
                                    number++);
    } while (std::filesystem::exists(path));
    return path;
}

}  // namespace

MadeFile make_event_file(const std::filesystem::path& folder, std::int64_t first_step) {
    const double time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::string beginning = event_record(time, 0, kFileVersion, "brain.Event:2");
    if (first_step > 0) {
        // The job repeats the steps from `first_step` on. A SessionLog with the status START makes TensorBoard hide the
        // earlier events of these steps.
        beginning += event_record(time, first_step, kSessionLog, EventMessage().add_varint(1, 1).text());
    }
    auto file = AppendedFile::begin(event_path(folder, time), beginning);
    RUEDA_RETURN_IF_FAILED(file.status());
    return std::unique_ptr<MetricFile>(std::make_unique<EventFile>(std::move(file).value()));
}

}  // namespace rueda::training
