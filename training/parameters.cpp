// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/parameters.hpp"

#include <exception>
#include <vector>

namespace rueda::training {
namespace {

/// Waits for all operations, even if some fail, and then throws the first error. The operations use the tensors until
/// all of them have ended.
void wait_for_all(std::span<const Handle> handles) {
    std::exception_ptr first;
    for (const Handle& handle : handles) {
        try {
            handle.wait();
        } catch (const Error&) {
            first = first ? first : std::current_exception();
        }
    }
    if (first) {
        std::rethrow_exception(first);
    }
}

}  // namespace

void broadcast_parameters(std::span<const NamedTensor> tensors, int root) {
    std::vector<Handle> handles;
    handles.reserve(tensors.size());
    try {
        for (const NamedTensor& tensor : tensors) {
            handles.push_back(broadcast_async("rueda.training.parameters." + tensor.name, tensor.tensor, root));
        }
    } catch (const Error&) {
        const std::exception_ptr refused = std::current_exception();
        try {
            wait_for_all(handles);
        } catch (const Error&) {  // the caller gets the error of the refused operation instead
        }
        std::rethrow_exception(refused);
    }
    wait_for_all(handles);
}

}  // namespace rueda::training
