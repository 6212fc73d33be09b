// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

TEST_CASE("Every function of the table exists", "[unit]") {
    CHECK_NOTHROW(open_cuda());
    CHECK_NOTHROW(open_nccl());
}

TEST_CASE("The driver must be initialised, and most functions need a current context", "[unit]") {
    reset(1, 3);
    int count = 0;
    CHECK(cuda().device_get_count(&count) == kCudaNotInitialized);
    REQUIRE(cuda().init(0) == kCudaSuccess);
    CHECK(cuda().device_get_count(&count) == kCudaSuccess);
    CHECK(count == 3);
    DeviceAddress memory = 0;
    CHECK(cuda().memory_allocate(&memory, 4) == kCudaInvalidContext);
    CHECK(contexts_created() == 0);
    {
        const OnDevice device(2);
        CHECK(contexts_created() == 1);
        CHECK(cuda().memory_allocate(&memory, 4) == kCudaSuccess);
        CudaResult elsewhere = kCudaSuccess;
        std::thread([&] { elsewhere = cuda().memory_allocate(&memory, 4); }).join();
        CHECK(elsewhere == kCudaInvalidContext);  // each thread has its own stack of contexts
        int active = 0;
        unsigned flags = 0;
        CHECK(cuda().primary_context_get_state(2, &flags, &active) == kCudaSuccess);
        CHECK(active == 1);
        CHECK(cuda().primary_context_get_state(1, &flags, &active) == kCudaSuccess);
        CHECK(active == 0);
    }
    CudaContext context = nullptr;
    CHECK(cuda().context_get_current(&context) == kCudaSuccess);
    CHECK(context == nullptr);
    CHECK(cuda().context_pop(&context) == kCudaInvalidContext);
    CHECK(violations().empty());
}

TEST_CASE("Devices have names, identifiers and attributes", "[unit]") {
    reset(1, 2);
    REQUIRE(cuda().init(0) == kCudaSuccess);
    CudaUuid first{};
    CudaUuid second{};
    CHECK(cuda().device_get_uuid(&first, 0) == kCudaSuccess);
    CHECK(cuda().device_get_uuid(&second, 1) == kCudaSuccess);
    CHECK(std::memcmp(&first, &second, sizeof(first)) != 0);
    char name[8];
    CHECK(cuda().device_get_name(name, sizeof(name), 0) == kCudaSuccess);
    CHECK(std::string(name) == "simulat");
    int value = 0;
    CHECK(cuda().device_get_attribute(&value, kDeviceComputeMajor, 0) == kCudaSuccess);
    CHECK(value == 9);
    CHECK(cuda().device_get_attribute(&value, kDeviceComputeMajor, 2) == kCudaInvalidDevice);
    const char* text = nullptr;
    CHECK(cuda().get_error_name(kCudaIllegalAddress, &text) == kCudaSuccess);
    CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
    CHECK(cuda().get_error_string(12345, &text) == kCudaInvalidValue);
    CHECK(text == nullptr);
}

namespace {
void note_that_it_ran(void* flag) { *static_cast<bool*>(flag) = true; }
}  // namespace

TEST_CASE("A sticky error stays, drops the work, and skips host functions", "[unit]") {
    reset(1, 2);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const CudaEvent event = make_event();
    bool ran = false;
    hold_device(0);
    const DeviceAddress memory = allocate(16);
    fill(memory, 1, 16, stream);
    record(event, stream);
    REQUIRE(cuda().launch_host_function(stream, note_that_it_ran, &ran) == kCudaSuccess);
    break_device(0, kCudaIllegalAddress);
    CHECK(cuda().event_query(event) == kCudaIllegalAddress);
    CHECK(cuda().event_synchronize(event) == kCudaIllegalAddress);
    CHECK(cuda().event_record(event, stream) == kCudaIllegalAddress);
    settle();
    CHECK(outstanding() == 0);
    CHECK_FALSE(ran);
    const OnDevice other(1);  // the other device goes on
    const CudaStream good = make_stream();
    fill(allocate(4), 1, 4, good);
    synchronize(good);
    CHECK(violations().empty());
}

TEST_CASE("The nth call fails as the test wants", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    fail_call("cuEventCreate", 2, kCudaOutOfMemory);
    CudaEvent event = nullptr;
    CHECK(cuda().event_create(&event, 0) == kCudaSuccess);
    CHECK(cuda().event_create(&event, 0) == kCudaOutOfMemory);
    CHECK(cuda().event_create(&event, 0) == kCudaSuccess);
    CHECK(calls("cuEventCreate") == 3);
}

TEST_CASE("Work in a capturing stream does not run, and forbidden calls invalidate the capture", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const CudaStream other = make_stream();
    const CudaEvent event = make_event();
    int status = -1;
    CHECK(cuda().stream_is_capturing(stream, &status) == kCudaSuccess);
    CHECK(status == kCaptureNone);
    const DeviceAddress memory = allocate(4);

    REQUIRE(begin_capture(stream, kCaptureModeGlobal) == kCudaSuccess);
    CHECK(cuda().stream_is_capturing(stream, &status) == kCudaSuccess);
    CHECK(status == kCaptureActive);
    fill(memory, 1, 4, stream);
    CHECK(outstanding() == 0);
    record(event, stream);
    CHECK(end_capture(stream) == kCudaSuccess);

    // A query in another thread breaks a capture in global mode, unless that thread has set its own capture mode to
    // relaxed.
    REQUIRE(begin_capture(stream, kCaptureModeGlobal) == kCudaSuccess);
    CudaResult relaxed = -1;
    CudaResult global = -1;
    std::thread([&] {
        const OnDevice here(0);
        const CudaEvent own = make_event();
        int mode = kCaptureModeRelaxed;
        MUST(cuda().thread_exchange_capture_mode(&mode) == kCudaSuccess);
        MUST(mode == kCaptureModeGlobal);
        relaxed = cuda().event_query(own);
        MUST(cuda().thread_exchange_capture_mode(&mode) == kCudaSuccess);
        global = cuda().event_query(own);
    }).join();
    CHECK(relaxed == kCudaSuccess);
    CHECK(global == kCudaCaptureUnsupported);
    CHECK(end_capture(stream) == 901);

    REQUIRE(begin_capture(stream, kCaptureModeRelaxed) == kCudaSuccess);
    CHECK(cuda().event_query(make_event()) == kCudaSuccess);
    CHECK(cuda().stream_query(stream) == kCudaCaptureUnsupported);
    CHECK(end_capture(stream) == 901);

    REQUIRE(begin_capture(stream, kCaptureModeRelaxed) == kCudaSuccess);
    const CudaEvent outside = make_event();
    record(outside, other);
    CHECK(cuda().stream_wait_event(stream, outside, 0) == kCudaCaptureIsolation);
    CHECK(end_capture(stream) == 901);

    // A stream that waits for an event of the capture joins the capture.
    REQUIRE(begin_capture(stream, kCaptureModeRelaxed) == kCudaSuccess);
    record(event, stream);
    wait_for(other, event);
    CHECK(cuda().stream_is_capturing(other, &status) == kCudaSuccess);
    CHECK(status == kCaptureActive);
    CHECK(end_capture(stream) == kCudaSuccess);
    CHECK(cuda().stream_is_capturing(other, &status) == kCudaSuccess);
    CHECK(status == kCaptureNone);
    CHECK(violations().empty());
}

namespace {

/// out[i] = in[i] * factor
void scale(Grid grid, Grid block, void** arguments) {
    auto* out = static_cast<float*>(pointer(*static_cast<DeviceAddress*>(arguments[0])));
    const auto* in = static_cast<const float*>(pointer(*static_cast<DeviceAddress*>(arguments[1])));
    const float factor = *static_cast<float*>(arguments[2]);
    for (unsigned i = 0; i < grid.x * block.x; ++i) {
        out[i] = in[i] * factor;
    }
}
std::vector<Range> ranges_of_scale(Grid grid, Grid block, void** arguments) {
    const std::size_t bytes = std::size_t{grid.x} * block.x * sizeof(float);
    return {{.address = *static_cast<DeviceAddress*>(arguments[0]), .bytes = bytes, .write = true},
            {.address = *static_cast<DeviceAddress*>(arguments[1]), .bytes = bytes, .write = false}};
}

}  // namespace

TEST_CASE("A registered kernel runs with the arguments of the call, and its accesses are checked", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 2);
        const OnDevice device(0);
        register_kernel("scale", {.argument_bytes = argument_bytes<DeviceAddress, DeviceAddress, float>(),
                                  .run = scale,
                                  .ranges = ranges_of_scale});
        CudaModule module = nullptr;
        CudaFunction function = nullptr;
        REQUIRE(cuda().module_load_data(&module, "an image") == kCudaSuccess);
        CHECK(cuda().module_get_function(&function, module, "another") == kCudaNotFound);
        REQUIRE(cuda().module_get_function(&function, module, "scale") == kCudaSuccess);
        const CudaStream stream = make_stream();
        DeviceAddress in = upload(std::vector<float>{1, 2, 3, 4}, stream);
        DeviceAddress out = allocate(16);
        float factor = 3;
        void* arguments[] = {&out, &in, &factor};
        const auto launch = [&](unsigned threads, CudaStream where) {
            return cuda().launch_kernel(function, 2, 1, 1, threads, 1, 1, 0, where, arguments, nullptr);
        };
        hold_device(0);
        REQUIRE(launch(2, stream) == kCudaSuccess);
        factor = 100;  // the arguments were copied
        release_device(0);
        CHECK(download<float>(out, 4, stream) == std::vector<float>{3, 6, 9, 12});
        CHECK(violations().empty());
        CHECK(launch(2000, stream) == kCudaInvalidValue);
        CHECK(launch(2, make_stream()) == kCudaSuccess);
        CHECK(violations().empty());  // download() waited on the host, so there is no race
        CHECK(launch(2, stream) == kCudaSuccess);
        CHECK(has_violation("Race: kernel scale"));
        clear_violations();
        const OnDevice other(1);
        CHECK(launch(2, stream) == kCudaInvalidHandle);
        CHECK(has_violation("the stream is of another device"));
        CHECK(cuda().module_unload(module) == kCudaSuccess);
        CHECK(cuda().module_unload(module) == kCudaInvalidHandle);
    }
}
