/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/*
 * The functions of the C interface, with the declarations with which existing programs were compiled. Compiling this
 * file is the test: if the header declares a function differently, the compiler reports "conflicting types". Add a line
 * for each new function. Never change a line: if a function has to change, its new form gets a new name.
 */
#include "rueda/checkpoints.h"
#include "rueda/data.h"
#include "rueda/elastic.h"
#include "rueda/metric_files.h"
#include "rueda/replicas.h"
#include "rueda/rueda.h"

int rueda_wants_call_sites(void);
void rueda_set_call_site(const char* source_file, int32_t source_line);
const char* rueda_last_error(void);
const char* rueda_version(void);
int rueda_init(void);
int rueda_init_ranks(const int32_t* ranks, size_t count);
int rueda_init_communicator(const void* communicator, size_t communicator_size);
int rueda_init_with(const rueda_init_options* options);
int rueda_shutdown(void);
int rueda_shutdown_within(double);
int rueda_initialized(void);
int rueda_rank(int* value);
int rueda_size(int* value);
int rueda_local_rank(int* value);
int rueda_local_size(int* value);
int rueda_cross_rank(int* value);
int rueda_cross_size(int* value);
int rueda_is_homogeneous(int* value);
int rueda_threads_per_rank(int* value);
int rueda_local_device(int* index);
int rueda_process_set_add(const int32_t* ranks, size_t count, int32_t* process_set);
int rueda_process_set_remove(int32_t process_set);
int rueda_process_set_add_among(const int32_t* ranks, size_t count, int32_t* process_set);
int rueda_process_set_leave(int32_t process_set);
int rueda_process_set_rank(int32_t process_set, int* value);
int rueda_process_set_size(int32_t process_set, int* value);
int rueda_process_set_included(int32_t process_set, int* value);
int rueda_process_set_ranks(int32_t process_set, int32_t* ranks, size_t capacity, size_t* count);
int rueda_process_set_ids(int32_t* ids, size_t capacity, size_t* count);
int rueda_slot_create(const char* name, rueda_slot** slot);
int rueda_slot_create_in(const char* name, int32_t process_set, rueda_slot** slot);
void rueda_slot_destroy(rueda_slot* slot);
int rueda_allreduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                          const rueda_options* options, rueda_handle** handle);
int rueda_allreduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, const rueda_options* options);
int rueda_grouped_allreduce_async(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                  const rueda_options* options, rueda_handle** handle);
int rueda_grouped_allreduce(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                            const rueda_options* options);
int rueda_broadcast_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                          const rueda_options* options, rueda_handle** handle);
int rueda_broadcast(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                    const rueda_options* options);
int rueda_allgather_async(const char* name, const rueda_tensor* in, const rueda_options* options,
                          rueda_handle** handle);
int rueda_allgather(const char* name, const rueda_tensor* in, const rueda_options* options, rueda_handle** handle);
int rueda_allgather_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                               const rueda_options* options, rueda_handle** handle);
int rueda_allgather_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                         const rueda_options* options);
int rueda_reducescatter_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                              const rueda_options* options, rueda_handle** handle);
int rueda_reducescatter(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                        const rueda_options* options);
int rueda_alltoall_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                         const rueda_options* options, rueda_handle** handle);
int rueda_alltoall(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                   const rueda_options* options, rueda_handle** handle);
int rueda_alltoall_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                              size_t split_count, const rueda_options* options, rueda_handle** handle);
int rueda_alltoall_into(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                        size_t split_count, const rueda_options* options);
int rueda_grouped_allgather_async(const char* name, size_t count, const rueda_tensor* in, const rueda_options* options,
                                  rueda_handle** handle);
int rueda_grouped_allgather(const char* name, size_t count, const rueda_tensor* in, const rueda_options* options,
                            rueda_handle** handle);
int rueda_grouped_reducescatter_async(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                      const rueda_options* options, rueda_handle** handle);
int rueda_grouped_reducescatter(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                const rueda_options* options);
int rueda_gather_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle);
int rueda_gather(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options, rueda_handle** handle);
int rueda_scatter_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                        const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle);
int rueda_scatter(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                  const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle);
int rueda_reduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle);
int rueda_reduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options);
int rueda_sparse_allreduce_async(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                 const int64_t* shape, int32_t ndim, const rueda_options* options,
                                 rueda_handle** handle);
int rueda_sparse_allreduce(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                           const int64_t* shape, int32_t ndim, const rueda_options* options, rueda_handle** handle);
int rueda_join(int32_t average, int32_t* last_rank);
int rueda_join_async(int32_t average, rueda_handle** handle);
int rueda_handle_joined_last(rueda_handle* handle, int32_t* last_rank);
int rueda_handle_output_of(rueda_handle* handle, size_t index, rueda_tensor* output);
int rueda_send_async(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options,
                     rueda_handle** handle);
int rueda_send(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options);
int rueda_receive_async(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                        rueda_handle** handle);
int rueda_receive(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options, int32_t* sender);
int rueda_handle_sender(rueda_handle* handle, int32_t* sender);
int rueda_barrier(const rueda_options* options);
int rueda_barrier_async(const rueda_options* options, rueda_handle** handle);
int rueda_wait(rueda_handle* handle, double timeout_seconds);
int rueda_handle_waits_for(rueda_handle* handle, char* text, size_t size);
int rueda_poll(rueda_handle* handle, int* completed);
int rueda_wait_on_stream(rueda_handle* handle, const rueda_device_stream* stream, double timeout_seconds);
int rueda_handle_output(rueda_handle* handle, rueda_tensor* output);
int rueda_handle_received_splits(rueda_handle* handle, const int64_t** splits, size_t* count);
int rueda_handle_on_completion(rueda_handle* handle, rueda_callback callback, void* data);
void rueda_handle_release(rueda_handle* handle);
int rueda_allocate(size_t bytes, void** memory);
int rueda_allocate_on_device(int32_t device_type, int32_t device_index, size_t bytes, void** memory);
int rueda_deallocate(void* memory);
int rueda_abort(const char* reason);
int rueda_begin_step(int64_t step);
int rueda_busy_begin(const char* what);
int rueda_busy_end(void);
int rueda_metrics(char* text, size_t capacity, size_t* bytes);
int rueda_blocked_seconds(double* seconds);
int rueda_timeline_start(const char* path, int mark_cycles);
int rueda_timeline_stop(void);
int rueda_timeline_scope(const char* name, int64_t began_ns);
int rueda_stack_signal(int32_t* number);
int rueda_adopt_traceback_handler(int32_t descriptor);
int rueda_checkpoint_create_folder(const char* folder);
int rueda_checkpoint_save(const rueda_snapshot* snapshot, char** pruning_failure);
int rueda_checkpoint_list(const char* folder, char** text);
void rueda_checkpoint_free_text(char* text);
int rueda_checkpoint_open(const char* path, rueda_checkpoint** checkpoint);
int rueda_checkpoint_describe(const rueda_checkpoint* checkpoint, char** text);
int rueda_checkpoint_check_model(const rueda_checkpoint* checkpoint, const rueda_named_tensor* model,
                                 size_t model_count);
int rueda_checkpoint_read(const rueda_checkpoint* checkpoint, const rueda_named_tensor* model, size_t model_count,
                          const rueda_named_tensor* state, size_t state_count);
void rueda_checkpoint_close(rueda_checkpoint* checkpoint);
int rueda_data_open(const char* options, rueda_data_pipeline** pipeline);
int rueda_data_wait(rueda_data_pipeline* pipeline, double timeout_seconds, int32_t* ready);
int rueda_data_next(rueda_data_pipeline* pipeline, rueda_data_batch** batch);
int rueda_data_batch_size(const rueda_data_batch* batch, int64_t* rows, size_t* columns);
int rueda_data_batch_column(rueda_data_batch* batch, size_t index, rueda_data_column* column);
void rueda_data_batch_release(rueda_data_batch* batch);
int rueda_data_describe(const rueda_data_pipeline* pipeline, char** text);
void rueda_data_free_text(char* text);
void rueda_data_close(rueda_data_pipeline* pipeline);
int rueda_data_open_with(const char* options, rueda_data_vocabulary* const* vocabularies, size_t count,
                         rueda_data_pipeline** pipeline);
int rueda_data_open_from(const char* options, rueda_data_vocabulary* const* vocabularies, size_t count,
                         const rueda_data_bytes* contents, size_t content_count, rueda_data_pipeline** pipeline);
int rueda_data_hash(const rueda_data_terms* terms, uint64_t seed, int64_t buckets, int64_t* ids);
int rueda_data_vocabulary_open(const char* options, rueda_data_vocabulary** vocabulary);
int rueda_data_vocabulary_look_up(rueda_data_vocabulary* vocabulary, const rueda_data_terms* terms,
                                  int32_t count_unknown, int64_t* ids);
int rueda_data_vocabulary_describe(const rueda_data_vocabulary* vocabulary, char** text);
int rueda_data_vocabulary_term(const rueda_data_vocabulary* vocabulary, int64_t id, const char** bytes, size_t* size);
int rueda_data_vocabulary_unmerged(const rueda_data_vocabulary* vocabulary, char** bytes, size_t* size);
int rueda_data_vocabulary_merge(rueda_data_vocabulary* vocabulary, const char* bytes, size_t size, int64_t* added);
int rueda_data_vocabulary_state(const rueda_data_vocabulary* vocabulary, char** bytes, size_t* size);
int rueda_data_vocabulary_restore(rueda_data_vocabulary* vocabulary, const char* bytes, size_t size);
int rueda_data_vocabulary_save(const rueda_data_vocabulary* vocabulary, const char* path);
int rueda_data_vocabulary_freeze(rueda_data_vocabulary* vocabulary);
void rueda_data_vocabulary_close(rueda_data_vocabulary* vocabulary);
int rueda_data_writer_open(const char* path, const char* compression, rueda_data_writer** writer);
int rueda_data_writer_write(rueda_data_writer* writer, const char* bytes, size_t size);
int rueda_data_writer_write_examples(rueda_data_writer* writer, const rueda_data_column* columns, size_t count,
                                     int64_t rows);
int rueda_data_writer_close(rueda_data_writer* writer);
void rueda_data_writer_release(rueda_data_writer* writer);
int rueda_data_prove(int32_t socket, int32_t accepted, const char* secret, const char* purpose, double timeout_seconds,
                     unsigned char* sending_key, unsigned char* receiving_key);
int rueda_data_pin(void* memory, size_t bytes, int32_t device_index, rueda_data_pinned** pinned);
int rueda_data_pinned_note_work(rueda_data_pinned* pinned, void* stream);
int rueda_data_pinned_is_idle(rueda_data_pinned* pinned, int32_t* idle);
int rueda_data_unpin(rueda_data_pinned* pinned);
int rueda_checkpoint_claim_folder(const char* folder, rueda_checkpoint_claim** claim);
void rueda_checkpoint_release(rueda_checkpoint_claim* claim);
int rueda_checkpoint_begin(const char* folder, int64_t step, char** name);
int rueda_checkpoint_write_part(const char* path, int64_t step, const rueda_tensor_part* parts, size_t part_count,
                                int32_t rank, int32_t size);
int rueda_checkpoint_missing_part(const char* path, int32_t* rank, int32_t size);
int rueda_checkpoint_complete(const rueda_snapshot* snapshot, const char* name, char** pruning_failure);
int rueda_checkpoint_give_up_part(const char* path, int32_t rank, int32_t size);
int rueda_checkpoint_check_parts(const rueda_checkpoint* checkpoint, const rueda_tensor_part* parts, size_t part_count);
int rueda_checkpoint_read_parts(const rueda_checkpoint* checkpoint, const rueda_tensor_part* parts, size_t part_count,
                                const rueda_named_tensor* state, size_t state_count);
int rueda_is_elastic(void);
int rueda_take_slot_changes(int32_t* changes);
int rueda_metric_files_open(const char* folder, const char* formats, int64_t first_step, rueda_metric_files** files);
int rueda_metric_files_write(rueda_metric_files* files, int64_t step, const char* const* names, const double* values,
                             size_t count);
int rueda_metric_files_close(rueda_metric_files* files);
void rueda_metric_files_release(rueda_metric_files* files);
int rueda_device_team_create(const rueda_device_team_options* options, rueda_device_team** team);
void rueda_device_team_free(rueda_device_team* team);
int rueda_device_team_stream(const rueda_device_team* team, rueda_device_stream* stream);
int rueda_device_team_ready(rueda_device_team* team, size_t replica, size_t tensor, int* is_summed);
int rueda_device_team_follow(rueda_device_team* team);
int rueda_device_team_distribute(rueda_device_team* team, size_t tensor);
int rueda_device_team_join(rueda_device_team* team);
