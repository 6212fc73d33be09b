// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// optimizer_steps INPUT OUTPUT RULE OPTION=VALUE…: runs an optimizer over given gradients, for test_optimizers.py.
// INPUT is a checkpoint with "values" [n] and "gradients" [steps, n]; OUTPUT gets the values after each step, [steps,
// n]. After half of the steps, the program saves the state, and continues with a new optimizer that loads it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "rueda/training/checkpoint.hpp"
#include "rueda/training/optimizer.hpp"

namespace {

using namespace rueda;
using namespace rueda::training;

using Settings = std::map<std::string, double>;

OptimizerRule rule_of(const std::string& name, Settings set) {
    const auto or_else = [&](const char* option, double value) { return set.contains(option) ? set[option] : value; };
    if (name == "sgd") {
        return Sgd{.momentum = or_else("momentum", 0.0),
                   .dampening = or_else("dampening", 0.0),
                   .nesterov = or_else("nesterov", 0.0) != 0.0,
                   .weight_decay = or_else("weight_decay", 0.0)};
    }
    if (name == "adam") {
        return Adam{.beta1 = or_else("beta1", 0.9),
                    .beta2 = or_else("beta2", 0.999),
                    .epsilon = or_else("eps", 1e-8),
                    .weight_decay = or_else("weight_decay", 0.0)};
    }
    if (name == "adamw") {
        return AdamW{.beta1 = or_else("beta1", 0.9),
                     .beta2 = or_else("beta2", 0.999),
                     .epsilon = or_else("eps", 1e-8),
                     .weight_decay = or_else("weight_decay", 0.01)};
    }
    if (name == "adagrad") {
        return Adagrad{.rate_decay = or_else("lr_decay", 0.0),
                       .initial_accumulator = or_else("initial_accumulator_value", 0.0),
                       .weight_decay = or_else("weight_decay", 0.0)};
    }
    std::fprintf(stderr, "optimizer_steps: the rule is '%s'; use sgd, adam, adamw or adagrad\n", name.c_str());
    std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: optimizer_steps INPUT OUTPUT RULE OPTION=VALUE…\n");
        return 2;
    }
    Settings settings;
    for (int i = 4; i < argc; ++i) {
        const std::string text = argv[i];
        const std::size_t middle = text.find('=');
        settings[text.substr(0, middle)] = std::stod(text.substr(middle + 1));
    }
    const Checkpoint input(argv[1]);
    Shape shape;
    for (const TensorInfo& each : input.tensors()) {
        shape = each.name == "gradients" ? each.shape : shape;
    }
    const auto steps = static_cast<std::size_t>(shape.extents()[0]);
    const auto count = static_cast<std::size_t>(shape.extents()[1]);
    std::vector<float> values(count);
    std::vector<float> gradients(steps * count);
    input.read(std::vector<NamedTensor>{{"values", TensorView(values)},
                                        {"gradients", TensorView(gradients.data(), DType::float32, shape)}});
    std::vector<float> gradient(count);
    std::vector<float> results;
    const OptimizerRule rule = rule_of(argv[3], settings);
    const std::vector<Parameter> parameters = {{"w", values, gradient}};
    Optimizer optimizer(rule, parameters);
    const std::filesystem::path saved = std::string(argv[2]) + ".state";
    for (std::size_t step = 0; step < steps; ++step) {
        std::copy_n(gradients.begin() + static_cast<std::ptrdiff_t>(step * count), count, gradient.begin());
        optimizer.step(settings.at("lr"));
        results.insert(results.end(), values.begin(), values.end());
        if (step + 1 == steps / 2) {
            write_checkpoint(saved, optimizer.state());
            optimizer = Optimizer(rule, parameters);
            Checkpoint(saved).read(optimizer.state());
        }
    }
    write_checkpoint(argv[2], std::vector<NamedTensor>{{"values", TensorView(results.data(), DType::float32, shape)}});
    return 0;
}
