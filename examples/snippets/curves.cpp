// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <rueda/rueda.hpp>
#include <rueda/training/agreement.hpp>
#include <rueda/training/curves.hpp>
#include <rueda/training/progress.hpp>
#include <string>
#include <vector>

// Shows a bar during the training, and draws the loss of each step at the end.
int main(int argc, char** argv) {
    namespace training = rueda::training;
    constexpr int kSteps = 200;
    const std::string picture = std::string(argc > 1 ? argv[1] : "loss") + ".svg";
    rueda::init();
    bool right = false;
    {
        std::vector<double> weight = {3.0};
        std::vector<training::Curve> curves = {{"loss", {}}, {"weight", {}}};
        training::Progress progress(kSteps, "training");
        for (int step = 0; step < kSteps; ++step) {
            std::vector<double> gradient = {weight[0]};  // of weight² / 2
            rueda::allreduce("gradient", gradient);
            weight[0] -= 0.05 * gradient[0];
            const double loss = weight[0] * weight[0] / 2.0;
            curves[0].points.push_back({static_cast<double>(step), loss});
            curves[1].points.push_back({static_cast<double>(step), weight[0]});
            progress.step(step + 1, progress.visible() ? "loss " + std::to_string(loss) : "");
        }
        // If rank 0 cannot write the file, all ranks get the error.
        training::run_on_root(
            [&] { training::draw_curves(picture, curves, {.title = "A weight falls", .logarithmic = true}); });
        progress.line("drawn: " + picture);
        right = std::abs(weight[0]) < 1e-3 && (rueda::rank() != 0 || std::filesystem::file_size(picture) > 1000);
    }
    rueda::shutdown();
    return right ? 0 : 1;
}
