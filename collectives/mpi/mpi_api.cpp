// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/mpi_api.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "base/gpus/cuda_aware_mpi.hpp"

namespace rueda::collectives {
namespace {

Status check(int code, const char* call) {
    if (code == MPI_SUCCESS) {
        return {};
    }
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
        length = 0;
    }
    return failure(ErrorCode::aborted, "{} failed: {} (MPI error {})", call,
                   std::string_view(text.data(), static_cast<std::size_t>(length)), code);
}

template <class T>
Result<T> checked(int code, const char* call, T value) {
    Status status = check(code, call);
    return status.is_ok() ? Result<T>(std::move(value)) : Result<T>(std::move(status));
}

int run_callback(MPI_Comm /*communicator*/, int /*key*/, void* attribute, void* /*extra*/) {
    const std::unique_ptr<std::function<void()>> called(static_cast<std::function<void()>*>(attribute));
    (*called)();
    return MPI_SUCCESS;
}

Result<MPI_Comm> with_errors_returned(MPI_Comm communicator) {
    RUEDA_RETURN_IF_FAILED(check(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    return communicator;
}

/// A group of processes in MPI. The destructor frees it.
struct Group {
    Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group() {
        if (handle != MPI_GROUP_NULL) {
            MPI_Group_free(&handle);
        }
    }
    MPI_Group handle = MPI_GROUP_NULL;
};

class RealMpi final : public MpiApi {
public:
    bool initialized() override {
        int flag = 0;
        return MPI_Initialized(&flag) == MPI_SUCCESS && flag != 0;
    }
    bool finalized() override {
        int flag = 0;
        return MPI_Finalized(&flag) == MPI_SUCCESS && flag != 0;
    }
    std::string library_version() override {
        std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
        int length = 0;
        return MPI_Get_library_version(text.data(), &length) == MPI_SUCCESS ? std::string(text.data()) : std::string();
    }

    bool is_cuda_aware() override {
        Dl_info own{};
        if (::dladdr(reinterpret_cast<void*>(&MPI_Init), &own) == 0 || own.dli_fname == nullptr) {
            return false;
        }
        // The functions are looked up in the MPI library that this plugin calls.
        void* const library = ::dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
        return library != nullptr &&
               base::is_cuda_aware_mpi([library](const char* name) { return ::dlsym(library, name); });
    }

    Result<int> init_thread(int required) override {
        int provided = 0;
        const int code = MPI_Init_thread(nullptr, nullptr, required, &provided);
        return checked(code, "MPI_Init_thread", provided);
    }
    Result<int> query_thread() override {
        int provided = 0;
        const int code = MPI_Query_thread(&provided);
        return checked(code, "MPI_Query_thread", provided);
    }
    Status finalize() override { return check(MPI_Finalize(), "MPI_Finalize"); }

    Result<MPI_Comm> duplicate(MPI_Comm communicator) override {
        MPI_Comm made = MPI_COMM_NULL;
        RUEDA_RETURN_IF_FAILED(check(MPI_Comm_dup(communicator, &made), "MPI_Comm_dup"));
        return with_errors_returned(made);
    }
    Result<MPI_Comm> communicator_of(std::span<const int> world_ranks, int tag) override {
        Group world;
        Group members;
        RUEDA_RETURN_IF_FAILED(check(MPI_Comm_group(MPI_COMM_WORLD, &world.handle), "MPI_Comm_group"));
        RUEDA_RETURN_IF_FAILED(check(
            MPI_Group_incl(world.handle, static_cast<int>(world_ranks.size()), world_ranks.data(), &members.handle),
            "MPI_Group_incl"));
        MPI_Comm made = MPI_COMM_NULL;
        RUEDA_RETURN_IF_FAILED(
            check(MPI_Comm_create_group(MPI_COMM_WORLD, members.handle, tag, &made), "MPI_Comm_create_group"));
        return with_errors_returned(made);
    }
    Result<bool> is_intercommunicator(MPI_Comm communicator) override {
        int flag = 0;
        const int code = MPI_Comm_test_inter(communicator, &flag);
        return checked(code, "MPI_Comm_test_inter", flag != 0);
    }
    Result<bool> are_congruent(MPI_Comm a, MPI_Comm b) override {
        int result = MPI_UNEQUAL;
        const int code = MPI_Comm_compare(a, b, &result);
        return checked(code, "MPI_Comm_compare", result == MPI_IDENT || result == MPI_CONGRUENT);
    }
    Result<std::vector<int>> world_ranks(MPI_Comm communicator) override {
        Group world;
        Group members;
        int size = 0;
        RUEDA_RETURN_IF_FAILED(check(MPI_Comm_group(MPI_COMM_WORLD, &world.handle), "MPI_Comm_group"));
        RUEDA_RETURN_IF_FAILED(check(MPI_Comm_group(communicator, &members.handle), "MPI_Comm_group"));
        RUEDA_RETURN_IF_FAILED(check(MPI_Group_size(members.handle, &size), "MPI_Group_size"));
        std::vector<int> own(static_cast<std::size_t>(size));
        std::vector<int> found(own.size(), -1);
        std::iota(own.begin(), own.end(), 0);
        RUEDA_RETURN_IF_FAILED(
            check(MPI_Group_translate_ranks(members.handle, size, own.data(), world.handle, found.data()),
                  "MPI_Group_translate_ranks"));
        std::replace(found.begin(), found.end(), static_cast<int>(MPI_UNDEFINED), -1);
        return found;
    }
    Status free_communicator(MPI_Comm communicator) override {
        return check(MPI_Comm_free(&communicator), "MPI_Comm_free");
    }
    Result<int> rank(MPI_Comm communicator) override {
        int value = 0;
        const int code = MPI_Comm_rank(communicator, &value);
        return checked(code, "MPI_Comm_rank", value);
    }
    Result<int> size(MPI_Comm communicator) override {
        int value = 0;
        const int code = MPI_Comm_size(communicator, &value);
        return checked(code, "MPI_Comm_size", value);
    }
    Result<int> call_at_finalize(std::function<void()> called) override {
        int key = MPI_KEYVAL_INVALID;
        RUEDA_RETURN_IF_FAILED(check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, run_callback, &key, nullptr),
                                     "MPI_Comm_create_keyval"));
        auto attribute = std::make_unique<std::function<void()>>(std::move(called));
        RUEDA_RETURN_IF_FAILED(check(MPI_Comm_set_attr(MPI_COMM_SELF, key, attribute.get()), "MPI_Comm_set_attr"));
        static_cast<void>(attribute.release());  // run_callback() will delete it
        return key;
    }
    Status release_finalize_key(int key) override {
        RUEDA_RETURN_IF_FAILED(check(MPI_Comm_delete_attr(MPI_COMM_SELF, key), "MPI_Comm_delete_attr"));
        return check(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
    }

    Result<MPI_Request> iallgather(std::span<const std::byte> mine, std::byte* all, MPI_Comm communicator) override {
        MPI_Request request = MPI_REQUEST_NULL;
        const int count = static_cast<int>(mine.size());
        const int code = MPI_Iallgather(mine.data(), count, MPI_BYTE, all, count, MPI_BYTE, communicator, &request);
        return checked(code, "MPI_Iallgather", request);
    }
    Result<MPI_Request> iallgatherv(std::span<const std::byte> mine, std::byte* all, const int* counts,
                                    const int* offsets, MPI_Comm communicator) override {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all, counts, offsets,
                                         MPI_BYTE, communicator, &request);
        return checked(code, "MPI_Iallgatherv", request);
    }
    Result<MPI_Request> ibroadcast(std::span<std::byte> bytes, int root, MPI_Comm communicator) override {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code =
            MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, root, communicator, &request);
        return checked(code, "MPI_Ibcast", request);
    }
    Result<MPI_Request> ibarrier(MPI_Comm communicator) override {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = MPI_Ibarrier(communicator, &request);
        return checked(code, "MPI_Ibarrier", request);
    }
    Result<MPI_Request> isum_scatter(const std::uint32_t* all, std::uint32_t* mine, MPI_Comm communicator) override {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = MPI_Ireduce_scatter_block(all, mine, 1, MPI_UINT32_T, MPI_SUM, communicator, &request);
        return checked(code, "MPI_Ireduce_scatter_block", request);
    }
    Result<bool> test(MPI_Request& request) override {
        int flag = 0;
        const int code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        return checked(code, "MPI_Test", flag != 0);
    }

    Result<MPI_Request> isend(std::span<const std::byte> bytes, int rank, int tag, MPI_Comm communicator) override {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code =
            MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, tag, communicator, &request);
        return checked(code, "MPI_Isend", request);
    }
    Result<MPI_Request> irecv(std::span<std::byte> room, int rank, int tag, MPI_Comm communicator) override {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code =
            MPI_Irecv(room.data(), static_cast<int>(room.size()), MPI_BYTE, rank, tag, communicator, &request);
        return checked(code, "MPI_Irecv", request);
    }
    Result<MpiMessage> test_message(MPI_Request& request) override {
        MpiMessage message;
        MPI_Status status{};
        int flag = 0;
        const int code = MPI_Test(&request, &flag, &status);
        int error_class = MPI_SUCCESS;
        message.truncated = code != MPI_SUCCESS && MPI_Error_class(code, &error_class) == MPI_SUCCESS &&
                            error_class == MPI_ERR_TRUNCATE;
        message.complete = flag != 0 || message.truncated;
        int count = 0;
        if (message.complete && MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count > 0) {
            message.bytes = static_cast<std::size_t>(count);
        }
        if (int cancelled = 0; message.complete && MPI_Test_cancelled(&status, &cancelled) == MPI_SUCCESS) {
            message.cancelled = cancelled != 0;
        }
        return checked(message.truncated ? MPI_SUCCESS : code, "MPI_Test", message);
    }
    Result<std::optional<MpiEnvelope>> probe(int rank, int tag, MPI_Comm communicator) override {
        int flag = 0;
        int count = 0;
        MPI_Status status{};
        RUEDA_RETURN_IF_FAILED(check(MPI_Iprobe(rank, tag, communicator, &flag, &status), "MPI_Iprobe"));
        if (flag == 0) {
            return std::optional<MpiEnvelope>();
        }
        RUEDA_RETURN_IF_FAILED(check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"));
        if (count < 0) {  // MPI_UNDEFINED: the message has more bytes than an int can count
            return failure(ErrorCode::aborted,
                           "MPI_Iprobe: a message of rank {} is longer than MPI can tell; expected at most {} bytes",
                           status.MPI_SOURCE, std::numeric_limits<int>::max());
        }
        return std::optional(MpiEnvelope{status.MPI_SOURCE, status.MPI_TAG, static_cast<std::size_t>(count)});
    }
    Status cancel(MPI_Request& request) override { return check(MPI_Cancel(&request), "MPI_Cancel"); }
};

}  // namespace

std::unique_ptr<MpiApi> real_mpi() { return std::make_unique<RealMpi>(); }

}  // namespace rueda::collectives
