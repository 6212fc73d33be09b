// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <future>
#include <iostream>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<float> gradient(1000, 1.0F);
    std::promise<float> sum;
    rueda::allreduce_async("gradient", gradient, {.op = rueda::ReduceOp::sum})
        .on_completion([&](std::exception_ptr failure) {  // the handle is gone already
            failure ? sum.set_exception(failure) : sum.set_value(gradient[0]);
        });
    const float found = sum.get_future().get();  // stands for other work of the trainer
    std::cout << "rank " << rueda::rank() << ": " << found << "\n";
    const bool right = found == static_cast<float>(rueda::size());
    rueda::shutdown();
    return right ? 0 : 1;
}
