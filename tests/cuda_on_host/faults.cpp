// The host that runs CUDA kernels, against kernels with one deliberate fault each: every one is noticed, and named.
#include <numeric>

#include <boost/test/unit_test.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/async_copy.h"
#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "cuda/tensor_core.h"
#include "tests/cuda_on_host/runtime.h"

using namespace fovea;
using namespace fovea::cuda;

namespace {

constexpr int threads = 96;

/// Every kernel of this file runs in four orders.
struct FourOrders {
  int before = cuda_on_host::orders();
  FourOrders() { cuda_on_host::set_orders(4); }
  ~FourOrders() { cuda_on_host::set_orders(before); }
};

void wait() { check(cudaStreamSynchronize(stream()), "wait"); }

/// `words` occur in the error that waiting for the kernel brings.
template <class Run>
void require_fault(const std::string& words, const Run& run) {
  BOOST_CHECK_EXCEPTION((run(), wait()), Error, [&](const Error& error) {
    bool said = std::string(error.what()).find(words) != std::string::npos;
    if (!said) BOOST_TEST_MESSAGE("the error was: " << error.what());
    return said;
  });
  wait();  // and the device works again
}

Tensor numbers(std::int64_t n) { return Tensor::arange(n, DType::f32, Device::cpu, 1).to(Device::cuda); }

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_on_host_faults, *boost::unit_test::fixture<FourOrders>())

// ---- Shared memory and barriers ----

namespace {

/// out[k] = in[n − 1 − k] within a block of n threads, through shared memory.
template <bool has_barrier>
__global__ void reverse(const float* in, float* out) {
  __shared__ SharedArray<float, threads> tile;
  tile[threadIdx.x] = in[threadIdx.x];
  if (has_barrier) __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void half_of_them_at_a_barrier() {
  if (threadIdx.x < threads / 2) __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < threads / 2)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void last_one_in_shared_memory(float* out) {
  __shared__ SharedArray<float, threads> tile;
  __syncthreads();
  tile[threadIdx.x + 1] = 1;
  out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void dynamic_array(float* out, int elements) {
  SharedSpan<float> tile(0, elements);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = tile[threads - 1 - threadIdx.x];
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_block_reverses_through_shared_memory) {
  Tensor in = numbers(threads), out = Tensor::empty({threads}, DType::f32, Device::cuda);
  launch("reverse", 0, reverse<true>, {1, threads}, in.data<float>(), out.mutable_data<float>());
  std::vector<float> reversed = out.to_vector<float>();
  for (int k = 0; k < threads; ++k) BOOST_TEST(reversed[k] == threads - k);
}

BOOST_AUTO_TEST_CASE(a_missing_barrier_is_caught) {
  Tensor in = numbers(threads), out = Tensor::zeros({threads}, DType::f32, Device::cuda);
  require_fault("kernel 'reverse': what it writes depends on the order in which its threads run", [&] {
    launch("reverse", 0, reverse<false>, {1, threads}, in.data<float>(), out.mutable_data<float>());
  });
}

BOOST_AUTO_TEST_CASE(a_barrier_that_not_all_threads_reach_is_caught) {
  require_fault("48 of 96 threads wait at the barrier at ", [] {
    launch("half", 0, half_of_them_at_a_barrier, {1, threads});
  });
  require_fault("thread 0 at another one", [] { launch("two", 0, two_barriers, {1, threads}); });
}

BOOST_AUTO_TEST_CASE(an_index_outside_of_shared_memory_is_caught) {
  Tensor out = Tensor::zeros({threads}, DType::f32, Device::cuda);
  require_fault("thread (95, 0, 0): shared memory: index 96 of an array of 96 elements", [&] {
    launch("last", 0, last_one_in_shared_memory, {1, threads}, out.mutable_data<float>());
  });
  require_fault("dynamic shared memory: 96 elements of 4 bytes from byte 0 on, of 380 bytes", [&] {
    launch("dynamic", 0, dynamic_array, {1, threads, (threads - 1) * sizeof(float)}, out.mutable_data<float>(),
           threads);
  });
  launch("dynamic", 0, dynamic_array, {1, threads, threads * sizeof(float)}, out.mutable_data<float>(), threads);
  BOOST_TEST(out.to_vector<float>()[0] == threads - 1);
}

// ---- Races ----

namespace {

__global__ void last_thread_wins(float* out) { *out = static_cast<float>(threadIdx.x); }
__global__ void last_block_wins(float* out) { *out = static_cast<float>(blockIdx.x); }
__global__ void sum_in_any_order(const float* in, float* out) { atomicAdd(out, 1 / in[threadIdx.x]); }
__global__ void maximum_in_any_order(const float* in, int* out) { atomicMax(out, static_cast<int>(in[threadIdx.x])); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_race_of_threads_is_caught) {
  Tensor out = Tensor::zeros({1}, DType::f32, Device::cuda);
  require_fault("depends on the order in which its threads run", [&] {
    launch("threads", 0, last_thread_wins, {1, threads}, out.mutable_data<float>());
  });
}

BOOST_AUTO_TEST_CASE(a_race_of_blocks_is_caught) {
  Tensor out = Tensor::zeros({1}, DType::f32, Device::cuda);
  require_fault("depends on the order in which its blocks run", [&] {
    launch("blocks", 0, last_block_wins, {3, 1}, out.mutable_data<float>());
  });
}

BOOST_AUTO_TEST_CASE(sums_by_atomics_are_caught_and_maxima_are_not) {
  Tensor in = numbers(threads), out = Tensor::zeros({1}, DType::f32, Device::cuda),
         most = Tensor::zeros({1}, DType::i32, Device::cuda);
  require_fault("depends on the order", [&] {
    launch("sum", 0, sum_in_any_order, {1, threads}, in.data<float>(), out.mutable_data<float>());
  });
  launch("maximum", 0, maximum_in_any_order, {1, threads}, in.data<float>(), most.mutable_data<std::int32_t>());
  BOOST_TEST(most.item() == threads);
}

// ---- Device memory ----

namespace {

__global__ void copy_from(const float* in, float* out, int offset) {
  int thread = static_cast<int>(threadIdx.x);
  out[thread] = in[thread + offset];
}
__global__ void copy_to(const float* in, float* out, int offset) {
  int thread = static_cast<int>(threadIdx.x);
  out[thread + offset] = in[thread];
}

}  // namespace

BOOST_AUTO_TEST_CASE(reading_or_writing_past_a_block_is_caught) {
  Tensor in = numbers(threads), out = Tensor::zeros({threads}, DType::f32, Device::cuda);
  require_fault("reads or writes outside of device memory: byte 384 of a block of 384 bytes", [&] {
    launch("read", 0, copy_from, {1, threads}, in.data<float>(), out.mutable_data<float>(), 1);
  });
  require_fault("reads or writes outside of device memory: byte 384 of a block of 384 bytes", [&] {
    launch("write", 0, copy_to, {1, threads}, in.data<float>(), out.mutable_data<float>(), 1);
  });
}

#if !defined(__SANITIZE_ADDRESS__)  // which stops the program itself at these
BOOST_AUTO_TEST_CASE(writing_into_the_surroundings_of_a_block_is_caught) {
  Tensor in = numbers(threads), out = Tensor::zeros({threads - 1}, DType::f32, Device::cuda);
  require_fault("wrote outside of device memory: byte 380 of a block of 380 bytes", [&] {
    launch("behind", 0, copy_to, {1, threads}, in.data<float>(), out.mutable_data<float>(), 0);
  });
  Tensor small = Tensor::zeros({threads}, DType::f32, Device::cuda);
  require_fault("wrote outside of device memory: 4 bytes before a block of 384 bytes", [&] {
    launch("before", 0, copy_to, {1, threads}, in.data<float>(), small.mutable_data<float>(), -1);
  });
}
#endif

BOOST_AUTO_TEST_CASE(memory_that_nothing_wrote_is_nan) {
  for (float x : Tensor::empty({5}, DType::f32, Device::cuda).to_vector<float>()) BOOST_TEST(std::isnan(x));
}

BOOST_AUTO_TEST_CASE(freed_memory_is_caught) {
  Tensor in = numbers(threads), out = Tensor::zeros({threads}, DType::f32, Device::cuda);
  const float* freed = in.data<float>();
  in = Tensor();
  require_fault("memory that was freed", [&] {
    launch("freed", 0, copy_from, {1, threads}, freed, out.mutable_data<float>(), 0);
  });
}

BOOST_AUTO_TEST_CASE(host_code_that_touches_device_memory_ends_with_one_line) {
  Tensor there = numbers(4);
  wait();
  int pipe_ends[2];
  BOOST_REQUIRE(pipe(pipe_ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    volatile float x = there.data<float>()[2];
    static_cast<void>(x);
    std::_Exit(0);
  }
  close(pipe_ends[1]);
  char text[400] = {};
  BOOST_TEST(read(pipe_ends[0], text, sizeof text - 1) > 0);
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 2));
  BOOST_TEST(std::string(text) ==
             "cuda on the host: host code reads or writes device memory, byte 8 of a block of 16 bytes; copy it to the "
             "host first, and wait for the copy\n");
}

// ---- Streams ----

BOOST_AUTO_TEST_CASE(a_forgotten_synchronisation_shows_as_the_old_value) {
  Tensor there = numbers(4);
  std::vector<float> here(4, -1);
  check(cudaMemcpyAsync(here.data(), there.data<float>(), 16, cudaMemcpyDefault, stream()), "copy");
  BOOST_TEST(here == std::vector<float>(4, -1), boost::test_tools::per_element());
  std::uint64_t before = cuda_on_host::synchronizations();
  wait();
  BOOST_TEST(cuda_on_host::synchronizations() == before + 1);
  BOOST_TEST(here == (std::vector<float>{1, 2, 3, 4}), boost::test_tools::per_element());
}

namespace {

/// Whether the copy on a second stream found what a kernel on the first wrote, for many pairs of streams.
int copies_that_came_too_early(bool waits) {
  cudaStream_t other;
  cudaEvent_t written;
  check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream");
  check(cudaEventCreateWithFlags(&written, cudaEventDisableTiming), "event");
  Tensor in = numbers(threads), out = Tensor::zeros({threads}, DType::f32, Device::cuda);
  int early = 0;
  for (int repeat = 0; repeat < 16; ++repeat) {
    out.fill(0);
    wait();
    float last = -1;
    launch("copy", 0, copy_from, {1, threads}, in.data<float>(), out.mutable_data<float>(), 0);
    check(cudaEventRecord(written, stream()), "record");
    if (waits) check(cudaStreamWaitEvent(other, written), "wait");
    check(cudaMemcpyAsync(&last, out.mutable_data<float>() + threads - 1, 4, cudaMemcpyDefault, other), "copy");
    check(cudaStreamSynchronize(other), "wait");
    early += last != threads;
    wait();
  }
  check(cudaEventDestroy(written), "event");
  check(cudaStreamDestroy(other), "stream");
  return early;
}

}  // namespace

BOOST_AUTO_TEST_CASE(streams_that_do_not_wait_for_each_other_are_caught) {
  BOOST_TEST(copies_that_came_too_early(false) > 0);
  BOOST_TEST(copies_that_came_too_early(true) == 0);
}

BOOST_AUTO_TEST_CASE(a_launch_that_the_device_refuses_is_refused) {
  BOOST_CHECK_EXCEPTION(launch("huge", 0, two_barriers, {1, 2048}), Error, [](const Error& error) {
    return std::string(error.what()) == "cuda: huge: invalid configuration argument";
  });
}

BOOST_AUTO_TEST_CASE(blocks_that_are_not_freed_are_counted) {
  std::size_t before = (wait(), cuda_on_host::live_blocks());
  {
    Tensor one = numbers(4);
    BOOST_TEST(cuda_on_host::live_blocks() == before + 1);
  }
  wait();
  BOOST_TEST(cuda_on_host::live_blocks() == before);
}

// ---- Warps ----

namespace {

__global__ void warp_operations(const int* in, int* out) {
  const int mine = in[threadIdx.x], n = static_cast<int>(blockDim.x);
  int at = static_cast<int>(threadIdx.x);
  out[at] = __shfl_sync(~0u, mine, 3);
  out[at + n] = __shfl_xor_sync(~0u, mine, 5);
  out[at + 2 * n] = __shfl_down_sync(~0u, mine, 4);
  out[at + 3 * n] = __shfl_up_sync(~0u, mine, 4, 8);
  out[at + 4 * n] = static_cast<int>(__ballot_sync(~0u, mine % 3 == 0));
  out[at + 5 * n] = 2 * __any_sync(~0u, mine == 40) + __all_sync(~0u, mine < 40);
  out[at + 6 * n] = static_cast<int>(__match_any_sync(~0u, mine % 3 - 1));
}
__global__ void half_a_warp() {
  if (threadIdx.x % 2 == 0)
    __shfl_sync(~0u, 1, 0);
  else
    __syncwarp();
}
__global__ void products(const bf16* a, const bf16* b, float* c) {  // [16, 16] [16, 16]
  constexpr int stride = 24;
  __shared__ SharedArray<Bf16, 16 * stride> left, right;
  for (int k = static_cast<int>(threadIdx.x); k < 256; k += 32) {
    left[k / 16 * stride + k % 16] = {a[k].bits};
    right[k / 16 * stride + k % 16] = {b[k].bits};
  }
  __syncthreads();
  LeftTile rows;
  std::uint32_t columns[4];
  MatrixReader<TileOrder::left, stride>(&left[0]).load(rows.pairs, 0, 0);
  MatrixReader<TileOrder::right, stride>(&right[0]).load(columns, 0, 0);
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  for (int half = 0; half < 2; ++half) {
    float sums[4] = {1, 2, 3, 4};
    multiply_add(sums, rows, {{columns[2 * half], columns[2 * half + 1]}});
    for (int k = 0; k < 4; ++k) c[16 * (g + 8 * (k / 2)) + 8 * half + 2 * t + k % 2] = sums[k];
  }
}
__global__ void through_packs(const float* in, float* out, int offset_in, int offset_out) {
  const int first = 4 * static_cast<int>(threadIdx.x);
  float x[4];
  load_elements(in + first + offset_in, 1, true, 4, x);
  store_elements(x, out + first + offset_out, 1, true, 4);
}
__global__ void copy_asynchronously(const float* in, int offset_in, int offset_shared) {
  __shared__ SharedArray<float, 8> tile;
  copy_16_bytes_async(&tile[offset_shared], in + offset_in);
}
__global__ void through_asynchronous_copies(const float* in, float* out, bool waits) {
  __shared__ SharedArray<float, 4 * threads> tile;
  copy_16_bytes_async(&tile[4 * threadIdx.x], in + 4 * threadIdx.x);
  close_copy_group();
  if (waits) wait_for_copies<0>();
  __syncthreads();
  for (int k = 0; k < 4; ++k) out[4 * threadIdx.x + k] = tile[4 * threads - 1 - (4 * threadIdx.x + k)];
}

}  // namespace

BOOST_AUTO_TEST_CASE(warp_operations_are_cuda_s) {
  constexpr int n = 40;  // a whole warp and a part of one
  std::vector<std::int32_t> in(n);
  std::iota(in.begin(), in.end(), 0);
  Tensor there = Tensor::from(in, {n}).to(Device::cuda), out = Tensor::zeros({7, n}, DType::i32, Device::cuda);
  launch("warps", 0, warp_operations, {1, n}, there.data<std::int32_t>(), out.mutable_data<std::int32_t>());
  std::vector<std::int32_t> found = out.to_vector<std::int32_t>();
  for (int k = 0; k < 32; ++k) {
    BOOST_TEST(found[k] == 3);
    BOOST_TEST(found[n + k] == (k ^ 5));
    BOOST_TEST(found[2 * n + k] == (k + 4 < 32 ? k + 4 : k));
    BOOST_TEST(found[3 * n + k] == (k % 8 >= 4 ? k - 4 : k));
    BOOST_TEST(static_cast<unsigned>(found[4 * n + k]) == 0b01001001001001001001001001001001u);
    BOOST_TEST(found[5 * n + k] == 1);
    BOOST_TEST((static_cast<unsigned>(found[6 * n + k]) == 0b01001001001001001001001001001001u << k % 3));
  }
}

BOOST_AUTO_TEST_CASE(lanes_that_do_not_come_to_a_warp_operation_are_caught) {
  require_fault("waits at the warp operation at ", [] { launch("half", 0, half_a_warp, {1, 32}); });
}

BOOST_AUTO_TEST_CASE(tensor_cores_multiply_matrices) {
  std::vector<float> a(16 * 16), b(16 * 16);
  for (std::size_t k = 0; k < a.size(); ++k) a[k] = static_cast<float>(k % 13) - 5;
  for (std::size_t k = 0; k < b.size(); ++k) b[k] = static_cast<float>(k % 7) - 2;
  Tensor left = Tensor::from(a, {16, 16}).to(DType::bf16).to(Device::cuda),
         right = Tensor::from(b, {16, 16}).to(DType::bf16).to(Device::cuda),
         out = Tensor::zeros({16, 16}, DType::f32, Device::cuda);
  launch("products", 0, products, {1, 32}, left.data<bf16>(), right.data<bf16>(), out.mutable_data<float>());
  std::vector<float> c = out.to_vector<float>();
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      float expected = static_cast<float>(1 + j % 2 + 2 * (i / 8));
      for (int k = 0; k < 16; ++k) expected += a[16 * i + k] * b[16 * k + j];
      BOOST_TEST(c[16 * i + j] == expected);
    }
}

BOOST_AUTO_TEST_CASE(packs_at_an_address_between_packs_are_caught) {
  Tensor in = numbers(12), out = Tensor::zeros({12}, DType::f32, Device::cuda);
  auto run = [&](int offset_in, int offset_out) {
    launch("packs", 0, through_packs, {1, 2}, in.data<float>(), out.mutable_data<float>(), offset_in, offset_out);
  };
  run(4, 0);
  BOOST_TEST(out.to_vector<float>()[7] == 12);
  require_fault("an access to 16 bytes at an address that lies 4 bytes behind a multiple of 16", [&] { run(1, 0); });
  require_fault("an access to 16 bytes at an address that lies 8 bytes behind a multiple of 16", [&] { run(0, 2); });
}

BOOST_AUTO_TEST_CASE(asynchronous_copies_from_or_to_an_address_between_packs_are_caught) {
  Tensor in = numbers(12);
  auto run = [&](int offset_in, int offset_shared) {
    launch("copies", 0, copy_asynchronously, {1, 1}, in.data<float>(), offset_in, offset_shared);
  };
  run(4, 4);
  wait();
  require_fault("an access to 16 bytes at an address that lies 4 bytes behind a multiple of 16", [&] { run(1, 0); });
  require_fault("an access to 16 bytes at an address that lies 12 bytes behind a multiple of 16", [&] { run(0, 3); });
}

BOOST_AUTO_TEST_CASE(asynchronous_copies_arrive_when_waited_for) {
  constexpr int n = 4 * threads;
  Tensor in = numbers(n), out = Tensor::zeros({n}, DType::f32, Device::cuda);
  launch("copies", 0, through_asynchronous_copies, {1, threads}, in.data<float>(), out.mutable_data<float>(), true);
  std::vector<float> arrived = out.to_vector<float>();
  for (int k = 0; k < n; ++k) BOOST_TEST(arrived[k] == n - k);
  launch("copies", 0, through_asynchronous_copies, {1, threads}, in.data<float>(), out.mutable_data<float>(), false);
  for (float x : out.to_vector<float>()) BOOST_TEST(std::isnan(x));
}

BOOST_AUTO_TEST_SUITE_END()
