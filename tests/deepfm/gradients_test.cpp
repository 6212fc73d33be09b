// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Compares every gradient of the model in examples/deepfm with central differences. The other tests of the example
// would not notice a wrong gradient that still trains.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "model.hpp"
#include "rueda/rueda.hpp"

namespace deepfm {
namespace {

constexpr std::int64_t kFeatures = kFields + 5;
constexpr std::int64_t kEmbedding = 3;
constexpr std::int64_t kUnused = kFeatures - 1;  ///< this id occurs in no sample
constexpr std::int64_t kRows = 5;
const std::vector<std::int64_t> kHidden = {4};
/// With this seed, no hidden value is so close to 0 that a finite difference would cross the bend of max(0, ·). Most
/// other seeds have this property, too.
constexpr std::uint64_t kSeed = 1;

/// Initializes Rueda for the resident memory of the gradients.
class Started {
public:
    Started() { rueda::init(); }
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;
    ~Started() { rueda::shutdown(); }
};

float between(rueda::training::Random& random, double low, double high) {
    return static_cast<float>(low + (high - low) * random.uniform());
}

/// Returns samples whose ids are partly equal. The second sample has an id twice.
Samples make_samples(rueda::training::Random& random) {
    Samples samples;
    for (std::int64_t row = 0; row < kRows; ++row) {
        samples.labels.push_back(static_cast<float>(row % 2));
        for (std::int64_t field = 0; field < kFields; ++field) {
            samples.ids.push_back(field + row);
            samples.values.push_back(between(random, 0.2, 1.0));
        }
    }
    samples.ids[kFields + 7] = samples.ids[kFields + 20];
    return samples;
}

/// The libraries with which the program was built, as CMake knows them.
#ifdef DEEPFM_HAS_ONEDNN
const std::vector<DenseLibrary> kLibraries = {DenseLibrary::eigen, DenseLibrary::onednn};
#else
const std::vector<DenseLibrary> kLibraries = {DenseLibrary::eigen};
#endif

const char* name_of(DenseLibrary library) { return library == DenseLibrary::eigen ? "Eigen" : "oneDNN"; }

/// The model with larger parameters than the initial ones, so that each term of the gradients is large enough to be
/// noticed.
DeepFm make_model(rueda::training::Random& random, DenseLibrary library) {
    DeepFm model(kFeatures, kEmbedding, kHidden, 1, library);
    const rueda::TensorView table = model.table().values().tensor;
    for (float& value :
         std::span(static_cast<float*>(table.data()), static_cast<std::size_t>(table.shape().elements()))) {
        value = between(random, -0.5, 0.5);
    }
    return model;
}

/// Returns the function whose gradients backward() computes: Σ slope × logit.
double total_of(DeepFm& model, const Samples& samples, std::span<const float> slopes) {
    const std::span<const float> logits = model.forward(samples);
    double total = 0.0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        total += static_cast<double>(slopes[i]) * static_cast<double>(logits[i]);
    }
    return total;
}

/// Returns the central difference for one parameter. Between the bends of max(0, ·), the total is a polynomial of
/// the second degree in each parameter, so the result is exact except for rounding.
double difference(float& parameter, DeepFm& model, const Samples& samples, std::span<const float> slopes) {
    constexpr float kStep = 1.0F / 256;
    const float before = parameter;
    parameter = before + kStep;
    const double above = total_of(model, samples, slopes);
    const float upper = parameter;
    parameter = before - kStep;
    const double below = total_of(model, samples, slopes);
    const double distance = static_cast<double>(upper) - static_cast<double>(parameter);
    parameter = before;
    return (above - below) / distance;
}

void check_close(double gradient, double expected) {
    CHECK(std::abs(gradient - expected) < 1e-3 * std::max(1.0, std::abs(expected)));
}

TEST_CASE("the gradients agree with central differences", "[unit]") {
    const Started started;
    const auto library = GENERATE(from_range(kLibraries));
    INFO(name_of(library));
    rueda::training::Random random(kSeed);
    DeepFm model = make_model(random, library);
    const Samples samples = make_samples(random);
    const std::vector<float> slopes = {0.7F, -0.4F, 0.9F, -0.6F, 0.3F};

    static_cast<void>(model.forward(samples));
    std::vector<std::size_t> order;
    model.backward(samples, slopes, [&order](std::size_t index) { order.push_back(index); });
    CHECK(order == std::vector<std::size_t>{2, 3, 0, 1});  // backward() reports the last layer's gradients first

    const std::int64_t width = model.table().width();
    std::map<std::int64_t, std::vector<float>> rows;
    const RowGradients& gradients = model.row_gradients();
    for (std::size_t i = 0; i < gradients.ids.size(); ++i) {
        const float* const row = gradients.rows.data() + i * static_cast<std::size_t>(width);
        CHECK(rows.emplace(gradients.ids[i], std::vector<float>(row, row + width)).second);  // each id once
    }
    CHECK(rows.size() == static_cast<std::size_t>(kUnused));
    CHECK(rows.count(kUnused) == 0);
    rows[kUnused].assign(static_cast<std::size_t>(width), 0.0F);

    auto* const values = static_cast<float*>(model.table().values().tensor.data());
    for (const auto& [id, row] : rows) {
        for (std::int64_t k = 0; k < width; ++k) {
            INFO("table row " << id << ", element " << k);
            check_close(row[static_cast<std::size_t>(k)], difference(values[id * width + k], model, samples, slopes));
        }
    }
    for (const rueda::training::Parameter& parameter : model.dense_parameters()) {
        double largest = 0.0;
        for (std::size_t i = 0; i < parameter.values.size(); ++i) {
            INFO(parameter.name << ", element " << i);
            check_close(parameter.gradient[i], difference(parameter.values[i], model, samples, slopes));
            largest = std::max(largest, std::abs(static_cast<double>(parameter.gradient[i])));
        }
        CHECK(largest > 0.05);  // far above the tolerance
    }
}

TEST_CASE("a rank without samples has gradients of zero", "[unit]") {
    const Started started;
    const auto library = GENERATE(from_range(kLibraries));
    INFO(name_of(library));
    rueda::training::Random random(kSeed);
    DeepFm model = make_model(random, library);
    const Samples samples = make_samples(random);
    const std::vector<float> slopes(static_cast<std::size_t>(kRows), 1.0F);
    static_cast<void>(model.forward(samples));
    model.backward(samples, slopes, [](std::size_t) {});
    CHECK_FALSE(model.row_gradients().ids.empty());

    CHECK(model.forward({}).empty());
    std::size_t ready = 0;
    model.backward({}, {}, [&ready](std::size_t) { ++ready; });
    CHECK(ready == 4);
    CHECK(model.row_gradients().ids.empty());
    CHECK(model.row_gradients().rows.empty());
    for (const rueda::training::Parameter& parameter : model.dense_parameters()) {
        CHECK(std::all_of(parameter.gradient.begin(), parameter.gradient.end(), [](float each) { return each == 0; }));
    }
}

}  // namespace
}  // namespace deepfm
