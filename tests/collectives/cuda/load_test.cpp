// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "collectives/cuda/load_cuda.hpp"
#include "collectives/cuda/load_plugin.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"

namespace rueda::collectives::cuda {
namespace {

bool has(const Status& status, const std::string& part) {
    INFO(status.message());
    return status.message().find(part) != std::string::npos;
}

int any_function() { return 0; }

/// A library that has all functions except one.
FindFunction all_but(const std::string& missing) {
    return
        [missing](const char* symbol) { return symbol == missing ? nullptr : reinterpret_cast<void*>(any_function); };
}

TEST_CASE("a missing function is named, with the library", "[unit]") {
    CudaApi cuda;
    CHECK(fill_cuda_api(cuda, "the driver", all_but("")).is_ok());
    CHECK(cuda.launch_host_function != nullptr);
    const Status no_record = fill_cuda_api(cuda, "the driver", all_but("cuEventRecord"));
    CHECK(no_record.code() == ErrorCode::unsupported);
    CHECK(has(no_record, "the driver has no function cuEventRecord"));
    NcclApi nccl;
    CHECK(fill_nccl_api(nccl, "NCCL", all_but("")).is_ok());
    const Status no_abort = fill_nccl_api(nccl, "NCCL 2.18.1 ('/x/libnccl.so.2')", all_but("ncclCommAbort"));
    CHECK(has(no_abort, "NCCL 2.18.1 ('/x/libnccl.so.2') has no function ncclCommAbort"));
    CHECK(has(no_abort, "RUEDA_NCCL_LIBRARY"));
    CHECK(nccl.has_memory_functions());
    NcclApi older;
    CHECK(fill_nccl_api(older, "NCCL", all_but("ncclCommDeregister")).is_ok());
    CHECK(!older.has_memory_functions());
    CHECK(older.allocate_memory == nullptr);
}

CudaResult fake_name(CudaResult error, const char** name) {
    *name = "CUDA_ERROR_FAKE";
    return error == kCudaUnknown ? kCudaInvalidValue : kCudaSuccess;
}
CudaResult fake_text(CudaResult /*error*/, const char** text) {
    *text = "a text";
    return kCudaSuccess;
}
CudaApi machine(CudaResult (*init)(unsigned), CudaResult (*count)(int*)) {
    CudaApi api;
    api.init = init;
    api.device_get_count = count;
    api.get_error_name = fake_name;
    api.get_error_string = fake_text;
    return api;
}

TEST_CASE("a stub, a machine without devices and a broken driver have their own errors", "[unit]") {
    const auto fine = [](unsigned) { return kCudaSuccess; };
    const auto one = [](int* count) {
        *count = 1;
        return kCudaSuccess;
    };
    CHECK(initialise_cuda(machine(fine, one)).is_ok());
    const Status stub = initialise_cuda(machine([](unsigned) { return kCudaStubLibrary; }, one));
    CHECK(stub.code() == ErrorCode::unsupported);
    CHECK(has(stub, "cuInit failed: CUDA_ERROR_FAKE (34): a text; the library is the CUDA Toolkit's stub"));
    CHECK(has(initialise_cuda(machine([](unsigned) { return kCudaNoDevice; }, one)), "CUDA_VISIBLE_DEVICES"));
    const Status none = initialise_cuda(machine(fine, [](int* count) {
        *count = 0;
        return kCudaSuccess;
    }));
    CHECK(has(none, "cuDeviceGetCount found no GPU: this process sees no GPU"));
    CHECK(has(initialise_cuda(machine([](unsigned) { return kCudaUnknown; }, one)),
              "cuInit failed: an error without a name (999): a text"));
}

TEST_CASE("an error names the call, the device and what to do", "[unit]") {
    const CudaApi api = machine(nullptr, nullptr);
    const Status status = cuda_failure(api, ErrorCode::aborted, "cuEventRecord", 3, kCudaIllegalAddress);
    CHECK(status.code() == ErrorCode::aborted);
    CHECK(has(status, "cuEventRecord failed on GPU 3: CUDA_ERROR_FAKE (700): a text; an earlier kernel"));
    CHECK(has(cuda_failure(api, ErrorCode::aborted, "cuMemAlloc", 0, kCudaOutOfMemory, "free some"), "; free some"));
}

TEST_CASE("NCCL is looked for beside the loaded libraries of Python, then in the system", "[unit]") {
    NcclSearch search{
        .loaded_files = {"/usr/lib/libc.so.6", "/v/site-packages/rueda/lib/librueda_cuda.so",
                         "/t/dist-packages/torch/lib/libtorch_cuda.so", "/t/dist-packages/torch/lib/libc10.so"},
        .cuda_path = "/usr/local/cuda"};
    CHECK(nccl_candidates(search) == std::vector<std::string>{"/t/dist-packages/nvidia/nccl/lib/libnccl.so.2",
                                                              "/v/site-packages/nvidia/nccl/lib/libnccl.so.2",
                                                              "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
                                                              "/usr/local/cuda/lib/libnccl.so.2"});
    search.setting = "/opt/libnccl.so.2";
    CHECK(nccl_candidates(search) == std::vector<std::string>{"/opt/libnccl.so.2"});
    const auto loaded = search_of_this_process("").loaded_files;
    CHECK(std::any_of(loaded.begin(), loaded.end(),
                      [](const std::string& file) { return file.find("libc.so") != std::string::npos; }));
}

TEST_CASE("a path without NCCL is an error with what to do", "[unit]") {
    const auto loaded = load_nccl({.setting = "/nonexistent/libnccl.so.2"});
    CHECK(loaded.status().code() == ErrorCode::unsupported);
    CHECK(has(loaded.status(), "/nonexistent/libnccl.so.2: cannot open shared object file"));
    CHECK(has(loaded.status(), "pip install"));
    CHECK(has(load_nccl({.setting = "libm.so.6"}).status(), "'libm.so.6' is no NCCL"));
}

TEST_CASE("versions of NCCL are named, refused and warned about", "[unit]") {
    CHECK(name_of_nccl_version(22809) == "2.28.9");
    CHECK(name_of_nccl_version(23203) == "2.32.3");
    CHECK(name_of_nccl_version(2708) == "2.7.8");
    CHECK(check_nccl_version(21800, "x").is_ok());
    const Status old = check_nccl_version(21705, "/x/libnccl.so.2");
    CHECK(old.code() == ErrorCode::unsupported);
    CHECK(has(old, "NCCL 2.17.5 ('/x/libnccl.so.2') is too old, expected 2.18.0 or newer"));
    CHECK(known_nccl_bugs(22809).empty());
    CHECK(known_nccl_bugs(21903).find("NCCL_CUMEM_ENABLE=0") != std::string::npos);
    CHECK(known_nccl_bugs(21801).find("issues/992") != std::string::npos);
}

TEST_CASE("the plugin is loaded from a path, and other files are refused", "[unit]") {
    const auto plugin = load_cuda_plugin(RUEDA_CUDA_PLUGIN_FILE);
    INFO(plugin.status().message());
    REQUIRE(plugin.is_ok());
    CHECK(plugin.value()->interface_version == kCudaPluginInterface);
    CHECK(load_cuda_plugin(RUEDA_CUDA_PLUGIN_FILE).value() == plugin.value());
    CHECK(has(load_cuda_plugin("/nonexistent/librueda_cuda.so").status(),
              "the CUDA plugin '/nonexistent/librueda_cuda.so' cannot be loaded"));
    CHECK(has(load_cuda_plugin("libm.so.6").status(), "is no CUDA plugin of Rueda"));
    // No plugin lies beside this test program, so loading fails.
    CHECK(has(load_cuda_plugin("").status(), "name the file by RUEDA_CUDA_PLUGIN"));
}

TEST_CASE("the plugin opens the driver, or says what is missing", "[unit]") {
    const auto plugin = load_cuda_plugin(RUEDA_CUDA_PLUGIN_FILE);
    REQUIRE(plugin.is_ok());
    const auto opened = plugin.value()->open({});
    if (!opened.is_ok()) {
        CHECK(opened.status().code() == ErrorCode::unsupported);
        CHECK(opened.status().message().find("; ") != std::string::npos);
        WARN("this machine has no GPU: " << opened.status().message());
    }
}

#ifdef RUEDA_REAL_NCCL
TEST_CASE("the toolkit's NCCL has all functions", "[libraries]") {
    const auto loaded = load_nccl({.setting = RUEDA_REAL_NCCL});
    INFO(loaded.status().message());
    REQUIRE(loaded.is_ok());
    CHECK(loaded.value().version >= kOldestNccl);
    CHECK(loaded.value().path.find("libnccl.so.2") != std::string::npos);
    CHECK(loaded.value().api.get_error_string(kNcclInvalidUsage) != nullptr);
    WARN("NCCL " << name_of_nccl_version(loaded.value().version));
    // The second search finds the library that is already loaded, whatever path the setting contains.
    const auto again = load_nccl({.setting = "/nonexistent/libnccl.so.2"});
    REQUIRE(again.is_ok());
    CHECK(again.value().path == loaded.value().path);
    CHECK(again.value().notice.find("RUEDA_NCCL_LIBRARY ('/nonexistent/libnccl.so.2') is not used") !=
          std::string::npos);
}
#endif

#ifdef RUEDA_STUB_DRIVER
TEST_CASE("the toolkit's stub of the driver has all functions and no driver", "[libraries]") {
    void* const library = ::dlopen(RUEDA_STUB_DRIVER, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    CudaApi api;
    const Status filled =
        fill_cuda_api(api, "the stub", [library](const char* symbol) { return ::dlsym(library, symbol); });
    INFO(filled.message());
    REQUIRE(filled.is_ok());
    const Status initialised = initialise_cuda(api);
    CHECK(initialised.code() == ErrorCode::unsupported);
    CHECK(has(initialised, "(34)"));
    CHECK(has(initialised, "stub"));
}
#endif

}  // namespace
}  // namespace rueda::collectives::cuda
