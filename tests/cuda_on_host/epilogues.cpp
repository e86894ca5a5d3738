// Products with a bias or with column sums on the host that runs CUDA kernels: how many launches a linear layer takes,
// how often cuBLASLt is asked for an algorithm, and what happens where it has none.
#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "cuda/stream.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/random.h"
#include "tests/cuda_on_host/cublasLt.h"
#include "tests/cuda_on_host/runtime.h"

using namespace fovea;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32) {
  Tensor out = Tensor::empty(shape, dtype);
  Generator generator(seed);
  fill_uniform(out, generator, -1, 1);
  return out.to(Device::cuda);
}

/// The launches of `act`, by kernel.
template <class Act>
std::map<std::string, std::uint64_t> launches_of(const Act& act) {
  std::map<std::string, std::uint64_t> counts;
  auto add = [&](std::uint64_t sign) {
    for (const LaunchCount& count : kernels(Device::cuda).launches()) counts[count.kernel] += sign * count.launches;
  };
  add(-std::uint64_t{1});
  act();
  add(1);
  std::erase_if(counts, [](const auto& entry) { return entry.second == 0; });
  return counts;
}

/// A linear layer and the gradient of its result, on CUDA.
struct Step {
  Variable x, weight, bias;
  Tensor gradient;
  Variable y;

  explicit Step(DType dtype = DType::f32, std::int64_t rows = 6)
      : x(random({rows, 3}, 1, dtype), true),
        weight(random({3, 5}, 2, dtype), true),
        bias(random({5}, 3, dtype), true),
        gradient(random({rows, 5}, 4, dtype)) {}
  void forward() { y = linear(x, weight, bias); }
  std::vector<std::vector<double>> results() const {
    std::vector<std::vector<double>> all;
    for (const Tensor& one : {y.value(), x.grad().value(), weight.grad().value(), bias.grad().value()})
      all.push_back(one.to_vector<double>());
    return all;
  }
};

struct WithoutAlgorithms {
  WithoutAlgorithms() { cuda_on_host::set_algorithms_exist(false); }
  ~WithoutAlgorithms() { cuda_on_host::set_algorithms_exist(true); }
};

using Counts = std::map<std::string, std::uint64_t>;

}  // namespace

BOOST_AUTO_TEST_SUITE(epilogues)

BOOST_AUTO_TEST_CASE(a_linear_layer_is_one_launch_forward_and_two_backward) {
  Step step;
  BOOST_TEST((launches_of([&] { step.forward(); }) == Counts{{"gemm", 1}}));
  BOOST_TEST((launches_of([&] { backward(step.y, step.gradient); }) == Counts{{"gemm", 2}}));
  Step in_f64(DType::f64);  // which cuBLASLt is not asked for
  BOOST_TEST((launches_of([&] { in_f64.forward(); }) == Counts{{"copy", 1}, {"gemm", 1}}));
  BOOST_TEST((launches_of([&] { backward(in_f64.y, in_f64.gradient); }) == Counts{{"gemm", 2}, {"sum", 1}}));
}

BOOST_AUTO_TEST_CASE(an_algorithm_is_chosen_once_for_each_problem) {
  auto calls_of = [](std::int64_t rows) {
    const std::uint64_t before = cuda_on_host::heuristic_calls();
    Step step(DType::f32, rows);
    step.forward();
    backward(step.y, step.gradient);
    return cuda_on_host::heuristic_calls() - before;
  };
  BOOST_TEST(calls_of(23) == 2u);
  BOOST_TEST(calls_of(23) == 0u);
  BOOST_TEST(calls_of(24) == 2u);
  set_matmul_precision(Precision::bf16);
  BOOST_TEST(calls_of(24) == 2u);
  set_matmul_precision(Precision::f32);
  BOOST_TEST(calls_of(24) == 0u);
}

BOOST_AUTO_TEST_CASE(operands_at_other_addresses_have_an_algorithm_for_their_alignment) {
  const Tensor rows = random({8, 4}, 1), weight = random({4, 4}, 2), bias = random({9}, 3);
  auto calls_with = [&](std::int64_t first) {
    const std::uint64_t before = cuda_on_host::heuristic_calls();
    matmul_plus_bias(rows, weight, bias.slice(0, first, first + 4));
    cuda::wait_for_stream("test");
    return cuda_on_host::heuristic_calls() - before;
  };
  BOOST_TEST(calls_with(0) == 1u);
  BOOST_TEST(calls_with(4) == 0u);
  BOOST_TEST(calls_with(1) == 1u);  // 4 bytes past a multiple of 16
  BOOST_TEST(calls_with(2) == 0u);
}

BOOST_AUTO_TEST_CASE(without_an_algorithm_several_kernels_compute_the_same) {
  auto results = [](const Counts& forward, const Counts& backward_pass) {
    Step step(DType::f32, 31);
    BOOST_TEST((launches_of([&] { step.forward(); }) == forward));
    BOOST_TEST((launches_of([&] { backward(step.y, step.gradient); }) == backward_pass));
    return step.results();
  };
  std::vector<std::vector<double>> several;
  {
    WithoutAlgorithms none;
    several = results({{"copy", 1}, {"gemm", 1}}, {{"gemm", 2}, {"sum", 1}});
    // That there is none is remembered too.
    const std::uint64_t before = cuda_on_host::heuristic_calls();
    results({{"copy", 1}, {"gemm", 1}}, {{"gemm", 2}, {"sum", 1}});
    BOOST_TEST(cuda_on_host::heuristic_calls() == before);
  }
  Step exact(DType::f64, 31);
  exact.forward();
  backward(exact.y, exact.gradient);
  for (std::size_t k = 0; k < several.size(); ++k)
    for (std::size_t i = 0; i < several[k].size(); ++i)
      BOOST_TEST(std::abs(exact.results()[k][i] - several[k][i]) < 1e-5);
}

namespace {

/// A product of 2 x 3 and 3 x 4 matrices, stored by columns, as cuBLASLt takes it.
struct Call {
  Tensor a = random({3, 2}, 1), b = random({4, 3}, 2), d = random({4, 2}, 3), sums = random({4}, 4),
         workspace = random({1024}, 5);
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, d_layout;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtHandle_t handle;
  cublasLtMatmulHeuristicResult_t best;
  const float* a_address = a.data<float>();
  std::size_t workspace_bytes = 4096;
  int found = 0;

  Call() {
    cublasLtCreate(&handle);
    cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutInit(&a_layout, CUDA_R_32F, 2, 3, 2);
    cublasLtMatrixLayoutInit(&b_layout, CUDA_R_32F, 3, 4, 3);
    cublasLtMatrixLayoutInit(&d_layout, CUDA_R_32F, 2, 4, 2);
    cublasLtMatmulPreferenceInit(&preference);
    const std::uint64_t bytes = 4096;
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    const std::uint32_t alignment = 16;
    for (int matrix = 0; matrix < 4; ++matrix)
      cublasLtMatmulPreferenceSetAttribute(
          &preference, cublasLtMatmulPreferenceAttributes_t(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + matrix),
          &alignment, sizeof alignment);
    set_epilogue(CUBLASLT_EPILOGUE_BGRADB, sums.mutable_data<float>());
  }
  void set_epilogue(std::uint32_t epilogue, void* vector) {
    cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
  }
  cublasStatus_t choose() {
    return cublasLtMatmulAlgoGetHeuristic(handle, &operation, &a_layout, &b_layout, &d_layout, &d_layout, &preference,
                                          1, &best, &found);
  }
  cublasStatus_t multiply() {
    const float alpha = 1, beta = 0;
    float* to = d.mutable_data<float>();
    return cublasLtMatmul(handle, &operation, &alpha, a_address, &a_layout, b.data<float>(), &b_layout, &beta, to,
                          &d_layout, to, &d_layout, &best.algo, workspace.mutable_address(), workspace_bytes,
                          cuda::stream());
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_stand_in_of_cublaslt_refuses_what_cublaslt_does_not_allow) {
  auto refused = [](const char* what, auto change_problem, auto change_call) {
    Call call;
    change_problem(call);
    const cublasStatus_t chosen = call.choose();
    if (chosen == CUBLAS_STATUS_SUCCESS) {
      change_call(call);
      BOOST_TEST((call.multiply() == CUBLAS_STATUS_INVALID_VALUE), what);
    } else {
      BOOST_TEST((chosen == CUBLAS_STATUS_INVALID_VALUE), what);
    }
  };
  auto nothing = [](Call&) {};
  Call call;
  BOOST_TEST((call.choose() == CUBLAS_STATUS_SUCCESS));
  BOOST_TEST((call.multiply() == CUBLAS_STATUS_SUCCESS));
  cuda::wait_for_stream("test");
  refused(
      "columns closer than they are long", [](Call& call) { call.a_layout.ld = 1; }, nothing);
  refused(
      "inner sizes that differ", [](Call& call) { call.b_layout.rows = 2; }, nothing);
  refused(
      "an epilogue without a vector", [](Call& call) { call.set_epilogue(CUBLASLT_EPILOGUE_BIAS, nullptr); }, nothing);
  refused(
      "no rows", [](Call& call) { call.a_layout.rows = call.d_layout.rows = 0; }, nothing);
  refused("an algorithm of another problem", nothing, [](Call& call) { call.d_layout.ld = 3; });
  refused("an algorithm of another epilogue", nothing,
          [](Call& call) { call.set_epilogue(CUBLASLT_EPILOGUE_BGRADA, call.sums.mutable_data<float>()); });
  refused("an address that is less aligned", nothing, [](Call& call) { ++call.a_address; });
  refused("a vector that is less aligned", nothing,
          [](Call& call) { call.set_epilogue(CUBLASLT_EPILOGUE_BGRADB, call.sums.mutable_data<float>() + 1); });
  refused("a matrix that does not end in its block", nothing,
          [](Call& call) { call.a_address = call.a.data<float>() + 4; });
  refused("memory of the host", nothing, [](Call& call) {
    alignas(16) static float here[6];
    call.a_address = here;
  });
  refused("too small a workspace", nothing, [](Call& call) { call.workspace_bytes = 512; });
}

BOOST_AUTO_TEST_SUITE_END()
