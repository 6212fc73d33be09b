// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <rueda/onednn.hpp>

int main() {
    rueda::init();
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const dnnl::memory::desc form({8, 3, 5, 5}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::oihw);

    // oneDNN uses memory that Rueda allocated. The ranks of a host can reduce this memory in place.
    auto* const memory = static_cast<float*>(rueda::allocate(form.get_size()));
    const dnnl::memory gradient(form, engine, memory);
    std::fill_n(memory, 8 * 3 * 5 * 5, static_cast<float>(rueda::rank()));
    rueda::allreduce("conv1.weight", rueda::tensor_of(gradient), {.op = rueda::ReduceOp::max});

    const bool right = memory[599] == static_cast<float>(rueda::size() - 1);
    rueda::deallocate(memory);
    rueda::shutdown();
    return right ? 0 : 1;
}
