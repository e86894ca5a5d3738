// Fused attention on a GPU: the kernels of cuda/attention against the composed engine on the CPU. Where there is no
// GPU, the CPU runs them (tests/cuda_on_host), with FOVEA_CUDA_ORDERS=4 in four orders of threads and blocks, which
// must agree bit for bit.
#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/engine/composed.h"
#include "attention/engine/fused.h"
#include "attention/engine/lowered.h"
#include "attention/registry.h"
#include "autograd/operations.h"
#include "tensor/formula/recorded.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

struct Case {
  std::int64_t queries, keys;
  std::int64_t model_dim = 6;  ///< two heads of half this width
  DType dtype = DType::f64;
  double dropout = 0, scale = 1;  ///< of the states
  double bias = 0;                ///< is added to the biases of query and key projections, with opposite signs
  bool causal = false;            ///< in cross-attention too
  bool hides_rows = false;        ///< some queries see no key
  bool continues_focus = false;   ///< the first query has a focus before it, and the focus is a result
};

/// The output, then the gradients of the states and of every parameter, with one random cotangent.
std::vector<std::vector<double>> results(const std::string& specification, Place place, const Case& c, Device device) {
  AttentionShape shape{.model_dim = c.model_dim, .heads = 2, .layer = 0, .layers = 2, .place = place};
  shape.dropout = c.dropout;
  const auto attention = attention_factory(specification)(shape);
  attention->to(DType::f64);
  Generator generator(5);
  for (auto& parameter : attention->parameters()) {
    const double size = parameter.variable.rank() == 2 ? 1.5 / std::sqrt(static_cast<double>(c.model_dim)) : 1;
    Variable(parameter.variable).value().copy_from(random_tensor(parameter.variable.shape(), generator, -size, size));
    if (c.bias != 0 && parameter.name.ends_with(".bias")) {
      Tensor bias = Variable(parameter.variable).value();
      bias.fill(parameter.name.find("query") != std::string::npos ? -c.bias : c.bias);
    }
  }
  attention->to(c.dtype);
  attention->to(device);
  attention->train(c.dropout > 0);
  auto states = [&](std::int64_t rows) {
    const Tensor x = random_tensor({2, rows, c.model_dim}, generator, -c.scale, c.scale);
    return Variable(x.to(c.dtype).to(device), true);
  };
  std::vector<Variable> inputs{states(c.keys)};
  const Tensor focus = random_tensor({2, 2}, generator, 0, static_cast<double>(c.keys)).to(c.dtype).to(device);
  if (place == Place::cross) inputs.push_back(states(c.queries));
  for (auto& parameter : attention->parameters()) inputs.push_back(parameter.variable);
  const std::int64_t I = place == Place::cross ? c.queries : c.keys;
  std::vector<std::uint8_t> allowed;
  for (std::int64_t i = 0; i < I; ++i)
    for (std::int64_t j = 0; j < c.keys; ++j) allowed.push_back(i % 5 != 3 && (3 * i + j) % 4 != 1);
  AttentionInput input{.query = inputs[place == Place::cross ? 1 : 0],
                       .key = inputs[0],
                       .value = inputs[0],
                       .key_lengths = Tensor::from(std::vector<std::int32_t>{static_cast<std::int32_t>(c.keys),
                                                                             static_cast<std::int32_t>(c.keys / 2 + 1)},
                                                   {2})
                                          .to(device),
                       .mask = test_mask(I, c.keys).to(c.dtype).to(device),
                       .causal = place == Place::decoder || c.causal};
  if (c.causal) input.key_lengths = {};
  if (c.continues_focus) inputs.push_back(input.previous_focus = Variable(focus, true));
  if (c.hides_rows) input.allowed = Tensor::from(allowed, {1, 1, I, c.keys}).to(device);
  RandomScope random({.seed = 4, .update = 7});
  AttentionTrace trace;
  if (c.continues_focus) input.trace = &trace;
  std::vector<Variable> all{attention->forward(input)};
  for (const TracedQuantity& quantity : trace.quantities)
    if (quantity.name == "focus") all.push_back(quantity.value);
  Variable loss;
  for (const Variable& x : all) {
    const Variable more = sum(x * random_tensor(x.shape(), generator).to(c.dtype).to(device));
    loss = loss.defined() ? loss + more : more;
  }
  for (Variable& gradient : grad(loss, inputs)) all.push_back(gradient);
  std::vector<std::vector<double>> numbers;
  for (const Variable& x : all) numbers.push_back(x.value().to_vector<double>());
  return numbers;
}

double largest(const std::vector<double>& x) {
  double found = 0;
  for (double one : x) found = std::max(found, std::abs(one));
  return found;
}

/// The largest difference of two results, relative to the largest number of each tensor or, where that is small, such
/// as the gradient of a bias that the softmax cancels, to a twentieth of the largest number of all.
double difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  double found = a.size() == b.size() ? 0 : std::nan(""), of_all = 0;
  for (const auto& x : b) of_all = std::max(of_all, largest(x));
  for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    const double scale = std::max({largest(b[k]), of_all / 20, 1e-30});
    if (a[k].size() != b[k].size()) return std::nan("");
    for (std::size_t e = 0; e < a[k].size(); ++e) {
      const double one = std::abs(a[k][e] - b[k][e]) / scale;
      found = one <= found ? found : one;  // a NaN stays
    }
  }
  return found;
}

void check_against_the_cpu(const std::string& specification, Place place, const Case& c, double tolerance) {
  BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place) << ", " << c.queries << " queries, "
                                   << c.keys << " keys") {
    std::vector<std::vector<double>> expected;
    {
      AttentionEngineScope composed(AttentionEngine::composed);
      Case exact = c;
      exact.dtype = DType::f64;
      expected = results(specification, place, exact, Device::cpu);
    }
    AttentionEngineScope fused(AttentionEngine::fused);
    const double found = difference(results(specification, place, c, Device::cuda), expected);
    BOOST_TEST(found <= tolerance);
  }
}

/// One of each way in which a formula reads numbers, and each part of a plan that kernels know.
const std::vector<std::string> kinds{"global",
                                     "gaussian",
                                     "relative(clip=3)",
                                     "relative(clip=3,values=false)",
                                     "persistent + relative(clip=100)",
                                     "persistent + sinks",
                                     "t5",
                                     "alibi",
                                     "dman",
                                     "man",
                                     "sman",
                                     "soft_cap",
                                     "adaptive_span",
                                     "local_p(half_width=40,renormalize=true)",
                                     "local_m(half_width=3)",
                                     "gaussian_location(normalize=true)",
                                     "location",
                                     "sinks",
                                     "sliding(left=3,right=2,dilation=2)",
                                     "additive",
                                     "additive + gaussian",
                                     "window",
                                     "window(use=additive)",
                                     "window(segment=5)",
                                     "window(use=additive,segment=3,mask=exact)",
                                     "window(mask=prob_or) + gaussian",
                                     "window + sliding(left=3,right=2)",
                                     "activation",
                                     "differential",
                                     "heads(gaussian*1, sliding(left=3,right=2)*1)"};

std::uint64_t launches_named(const std::string& beginning) {
  std::uint64_t count = 0;
  for (const LaunchCount& launch : kernels(Device::cuda).launches())
    if (launch.kernel.starts_with(beginning)) count += launch.launches;
  return count;
}

/// z · b, with a capture b.
struct Scaled {
  static constexpr const char* name = "scaled";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T by) const {
    return z * by;
  }
};

/// The output of attention whose plan reads b, then the gradient of b: composed on the CPU, fused on a GPU. fill(plan,
/// b) makes the plan.
template <class Fill>
std::vector<double> with_plan(Device device, const Tensor& read, const Fill& fill) {
  constexpr std::int64_t I = 5, J = 7;
  Generator generator(9);
  const auto states = [&](std::int64_t rows) { return Variable(random_tensor({2, 2, rows, 3}, generator).to(device)); };
  AttentionContext in;
  in.query = states(I), in.key = states(J), in.value = states(J);
  in.query_positions = Tensor::arange(I, DType::f64).to(device);
  in.key_positions = Tensor::arange(J, DType::f64).to(device);
  const Variable b(read.to(device), true);
  const auto plan = std::make_shared<Plan>();
  fill(*plan, b);
  const Variable out =
      device == Device::cpu ? attend_composed(in, *plan, {}, nullptr).out : attend_fused(in, plan, {}, nullptr).out;
  std::vector<double> all = out.value().to_vector<double>();
  for (double x : grad(sum(square(out)), {b})[0].value().to_vector<double>()) all.push_back(x);
  return all;
}

/// The same with the logits q · k b. term(b) is the bias; `densities`: the weights are exponentials of the logits.
template <class Term>
std::vector<double> with_scaled_logits(Device device, const Tensor& scale, bool densities, const Term& term) {
  return with_plan(device, scale, [&](Plan& plan, const Variable& b) {
    plan.biases.push_back(term(b));
    if (densities) plan.normalizers.emplace_back();
  });
}

/// x · y + x, or another function of x and y.
template <class F>
bool is_linear(const F& f) {
  return is_linear_in(record_expression(2, [&](std::span<const Recorded> x) { return std::vector{f(x[0], x[1])}; }), 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_on_tiles)

BOOST_AUTO_TEST_CASE(any_length_is_right_with_tails_of_tiles, *with_cuda()) {
  for (const std::string& kind : kinds) {
    for (std::int64_t n : {1, 17, 70}) check_against_the_cpu(kind, Place::encoder, {n, n}, 1e-10);
    check_against_the_cpu(kind, Place::decoder, {130, 130}, 1e-10);
  }
  check_against_the_cpu("forgetting", Place::decoder, {130, 130}, 1e-10);
  for (const char* kind : {"window(forward_only=true)", "window(pointer_scale_by_length=true)"})
    check_against_the_cpu(kind, Place::encoder, {130, 130}, 1e-10);
  for (const char* kind : {"global", "gaussian", "t5", "window", "window(use=additive,segment=5)"}) {
    check_against_the_cpu(kind, Place::cross, {1, 130}, 1e-10);
    check_against_the_cpu(kind, Place::cross, {130, 1}, 1e-10);
    check_against_the_cpu(kind, Place::cross, {67, 18}, 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(queries_that_see_no_key_have_output_and_gradient_0, *with_cuda()) {
  for (const std::string& kind : kinds) {
    Case c{40, 40};
    c.hides_rows = true;
    check_against_the_cpu(kind, Place::encoder, c, 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(a_table_of_one_offset_has_the_gradients_of_all_pairs, *with_cuda()) {
  Generator generator(3);
  for (const Shape& shape : {Shape{2, 2, 5, 1}, Shape{2, 1, 1}}) {  // a table for each query, and for each head
    const Tensor table = random_tensor(shape, generator, 0.5, 1.5);
    const auto term = [](const Variable& b) { return pointwise(Scaled{}, PerOffset{b, 0}); };
    const std::vector<double> cpu = with_scaled_logits(Device::cpu, table, false, term),
                              cuda = with_scaled_logits(Device::cuda, table, false, term);
    BOOST_REQUIRE(cuda.size() == cpu.size());
    for (std::size_t k = 0; k < cpu.size(); ++k) BOOST_TEST(std::abs(cuda[k] - cpu[k]) <= 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(heads_may_share_a_sink_in_memory, *with_cuda()) {
  const Tensor memory = Tensor::from(std::vector<double>{0.7, -9, -8}, {3});
  const auto shared = [](Plan& plan, const Variable& b) {
    plan.sink = broadcast_to(slice(b, 0, 0, 1), {2});  // b has numbers behind the sink, which no head may read
  };
  const std::vector<double> cpu = with_plan(Device::cpu, memory, shared),
                            cuda = with_plan(Device::cuda, memory, shared);
  BOOST_REQUIRE(cuda.size() == cpu.size());
  for (std::size_t k = 0; k < cpu.size(); ++k) BOOST_TEST(std::abs(cuda[k] - cpu[k]) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(densities_of_nan_are_nan, *with_cuda()) {
  const Tensor of_heads = Tensor::from(std::vector<double>{std::nan(""), 1}, {2});
  const auto term = [](const Variable& b) { return pointwise(Scaled{}, PerHead{b}); };
  const std::vector<double> cpu = with_scaled_logits(Device::cpu, of_heads, true, term),
                            cuda = with_scaled_logits(Device::cuda, of_heads, true, term);
  BOOST_REQUIRE(cuda.size() == cpu.size());
  for (std::size_t k = 0; k < cpu.size(); ++k) BOOST_TEST(std::isnan(cuda[k]) == std::isnan(cpu[k]));
  BOOST_TEST(std::isnan(cuda.front()));
}

BOOST_AUTO_TEST_CASE(dropout_draws_the_bits_of_the_cpu, *with_cuda()) {
  for (const char* kind :
       {"global", "gaussian", "local_p(half_width=40,renormalize=true)", "differential", "window",
        "window(use=additive)", "relative(clip=3)", "persistent", "heads(gaussian*1, sliding(left=3,right=2)*1)"}) {
    Case c{150, 150};
    c.dropout = 0.3;
    check_against_the_cpu(kind, Place::encoder, c, 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(heads_of_any_width_to_128, *with_cuda()) {
  for (std::int64_t width : {16, 24, 64, 100, 128})
    for (const char* kind : {"gaussian", "relative(clip=3,values=false)"})
      check_against_the_cpu(kind, Place::encoder, {35, 35, 2 * width}, 1e-10);
  for (std::int64_t width : {16, 24, 64})
    check_against_the_cpu("window(use=additive,segment=5)", Place::encoder, {35, 35, 2 * width}, 1e-10);
}

BOOST_AUTO_TEST_CASE(pointers_of_many_queries_are_carried_from_launch_to_launch, *with_cuda()) {
  for (const char* kind : {"window(use=additive,segment=5)", "additive + window(use=additive)"})
    check_against_the_cpu(kind, Place::cross, {1100, 130}, 1e-10);
}

BOOST_AUTO_TEST_CASE(a_focus_goes_from_query_to_query, *with_cuda()) {
  for (const char* kind :
       {"flexible", "flexible(threshold=0.4)", "flexible(detach_focus=true)", "flexible(p_init=nopen)",
        "additive + flexible(hidden=3)", "flexible + gaussian", "flexible + t5", "heads(flexible*1, gaussian*1)",
        "sinks(tokens=2) + sliding(left=3,right=3) + flexible(threshold=0.1)",
        "heads(gaussian*1, flexible(threshold=0.7)*1)"}) {
    for (const Case& c : {Case{1, 1}, Case{1, 150}, Case{67, 37}, Case{18, 130}})
      check_against_the_cpu(kind, Place::cross, c, 1e-10);
    Case c{67, 20};
    c.continues_focus = true;
    check_against_the_cpu(kind, Place::cross, c, 1e-10);
    c.dropout = 0.3, c.hides_rows = true;
    check_against_the_cpu(kind, Place::cross, c, 1e-10);
    check_against_the_cpu(kind, Place::cross, {20, 70, 64, DType::f32}, 5e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_window_beside_a_focus_has_no_kernel, *with_cuda()) {
  AttentionEngineScope fused(AttentionEngine::fused);
  for (const char* kind : {"window + flexible", "window(use=additive) + flexible"})
    BOOST_CHECK_EXCEPTION(results(kind, Place::cross, {9, 7}, Device::cuda), NoFusedForm, [](const Error& error) {
      return std::string(error.what()).find("a window between pointers beside a focus") != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(f32_and_bf16_are_as_exact_as_their_numbers, *with_cuda()) {
  for (const std::string& kind : kinds) {
    check_against_the_cpu(kind, Place::encoder, {70, 70, 64, DType::f32}, 2e-5);
    const Precision before = matmul_precision();
    set_matmul_precision(Precision::bf16);
    check_against_the_cpu(kind, Place::encoder, {70, 70, 64, DType::f32}, 0.05);
    set_matmul_precision(before);
  }
}

/// Kernels with factors in bf16 copy a tile while they compute another, and have larger ones than those of f64.
BOOST_AUTO_TEST_CASE(tiles_are_copied_ahead_in_bf16, *with_cuda()) {
  const Precision before = matmul_precision();
  set_matmul_precision(Precision::bf16);
  const auto check = [](const char* kind, Place place, Case c) {
    c.dtype = DType::f32;
    check_against_the_cpu(kind, place, c, 0.06);
  };
  for (const char* kind : {"global", "gaussian", "relative(clip=3)", "persistent", "window(segment=4)", "additive"})
    for (Place place : {Place::encoder, Place::decoder}) {
      check(kind, place, {150, 150});
      Case c{150, 150};  // dropout draws its bits for 128 keys: the last tile has others
      c.dropout = 0.3, c.hides_rows = true;
      check(kind, place, c);
    }
  for (int width : {2, 24, 100, 128}) check("gaussian", Place::encoder, {67, 67, 2 * width});
  for (const Case& c : {Case{1, 130}, Case{130, 1}, Case{67, 18}}) {
    check("gaussian", Place::cross, c);
    check("flexible(threshold=0.4)", Place::cross, c);
  }
  check("global", Place::encoder, {300, 300, 64});
  set_matmul_precision(before);
}

BOOST_AUTO_TEST_CASE(logits_of_ten_thousand, *with_cuda()) {
  for (const char* kind : {"global", "gaussian", "sinks"}) {
    Case c{33, 33};
    c.scale = 150;
    check_against_the_cpu(kind, Place::encoder, c, 1e-8);
  }
}

/// Nearly all of a pointer's mass is at one key, from which on kernels compute what lies behind as 1 − F, a difference
/// of nearly equal numbers.
BOOST_AUTO_TEST_CASE(saturated_pointers, *with_cuda()) {
  for (const char* kind : {"window", "window(use=additive)", "window(segment=5)", "window(mask=prob_or) + gaussian"})
    for (const Case& c : {Case{70, 70}, Case{1, 130}}) {
      Case far = c, near = c;
      far.scale = 150;
      check_against_the_cpu(kind, Place::cross, far, 1e-8);
      near.scale = 6, near.dtype = DType::f32;
      check_against_the_cpu(kind, Place::cross, near, 1e-4);
    }
}

/// The last tile has rows beyond the queries, whose logits are 0 where those of the last query are far below.
BOOST_AUTO_TEST_CASE(pointers_of_very_negative_logits, *with_cuda()) {
  for (std::int64_t queries : {9, 40}) {
    Case c{queries, queries};
    c.bias = 30;
    for (const char* kind : {"window", "window(use=additive)"}) check_against_the_cpu(kind, Place::encoder, c, 1e-8);
  }
}

BOOST_AUTO_TEST_CASE(causality_may_reach_beyond_the_keys, *with_cuda()) {
  for (const char* kind : {"window", "window(segment=4)", "window(use=additive,segment=3)", "gaussian", "flexible"}) {
    Case c{9, 5};
    c.causal = true;
    check_against_the_cpu(kind, Place::cross, c, 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(the_backward_pass_may_run_again, *with_cuda()) {
  AttentionEngineScope fused(AttentionEngine::fused);
  for (const char* kind : {"gaussian", "window", "relative(clip=3)", "persistent", "flexible"}) {
    const bool has_focus = std::string_view(kind) == "flexible";
    const auto attention = random_attention(kind, has_focus ? Place::cross : Place::encoder);
    attention->to(Device::cuda);
    Generator generator(7);
    const Variable x(random_tensor({2, 20, 6}, generator).to(Device::cuda), true);
    const Variable loss = sum(square(attention->forward({.query = x, .key = x, .value = x})));
    const std::vector<double> first = grad(loss, {x}, {}, {.retain_graph = true})[0].value().to_vector<double>();
    BOOST_TEST(grad(loss, {x})[0].value().to_vector<double>() == first, kind);
  }
}

BOOST_AUTO_TEST_CASE(a_call_is_few_kernels, *with_cuda()) {
  AttentionEngineScope fused(AttentionEngine::fused);
  for (const char* kind : {"global", "gaussian", "sinks", "sliding(left=3, right=2)"}) {
    const std::uint64_t before = launches_named("attention_");
    results(kind, Place::encoder, {20, 20}, Device::cuda);
    BOOST_TEST(launches_named("attention_") - before <= 4u, kind);  // the map of tiles, forward, two backward
  }
  for (const char* kind : {"window", "window(use=additive,segment=5)"}) {
    const std::uint64_t before = launches_named("attention_");
    results(kind, Place::encoder, {20, 20}, Device::cuda);
    BOOST_TEST(launches_named("attention_") - before <= 6u, kind);  // and two for the pointers' softmax
  }
  const Precision precision = matmul_precision();
  set_matmul_precision(Precision::bf16);
  const std::uint64_t before = launches_named("attention_");
  results("gaussian", Place::encoder, {70, 70, 64, DType::f32}, Device::cuda);
  BOOST_TEST(launches_named("attention_") - before == 6u);  // and one in each pass that rounds
  set_matmul_precision(precision);
}

BOOST_AUTO_TEST_CASE(memory_grows_with_the_length_and_not_with_its_square, *with_cuda()) {
  AttentionEngineScope fused(AttentionEngine::fused);
  const auto peak_bytes = [](const char* kind, Place place, std::int64_t n) {
    const auto attention =
        attention_factory(kind)({.model_dim = 8, .heads = 2, .layer = 0, .layers = 2, .place = place});
    attention->to(Device::cuda);
    Generator generator(6);
    const Variable x(random_tensor({1, n, 8}, generator).to(DType::f32).to(Device::cuda), true);
    const auto before = allocator_statistics(Device::cuda).bytes_in_use;
    reset_peak(Device::cuda);
    backward(sum(square(attention->forward({.query = x, .key = x, .value = x}))));
    return static_cast<double>(allocator_statistics(Device::cuda).peak_bytes - before);
  };
  const auto check = [&](const char* kind, Place place, std::int64_t n) {
    BOOST_TEST(peak_bytes(kind, place, 2 * n) <= 2.05 * peak_bytes(kind, place, n), kind);
  };
  for (const char* kind : {"gaussian", "relative(clip=3)", "additive", "differential"})
    check(kind, Place::encoder, 256);
  check("flexible", Place::cross, 256);
  check("window(segment=5)", Place::encoder, 1024);  // the backward pass of pointers takes so many queries at a time
}

BOOST_AUTO_TEST_CASE(a_formula_that_is_a_multiple_is_known, *cpu_only()) {
  BOOST_TEST(is_linear([](auto x, auto y) { return x * y; }));
  BOOST_TEST(is_linear([](auto x, auto y) { return -x / (y * y) + x; }));
  BOOST_TEST(is_linear([](auto x, auto y) { return select(y < Recorded(1), x * exp(y), Recorded(0)); }));
  BOOST_TEST(!is_linear([](auto x, auto y) { return x + y; }));
  BOOST_TEST(!is_linear([](auto x, auto y) { return x * x * y; }));
  BOOST_TEST(!is_linear([](auto x, auto y) { return y / x; }));
  BOOST_TEST(!is_linear([](auto x, auto y) { return select(x < y, x, Recorded(0)); }));
  BOOST_TEST(!is_linear([](auto x, auto y) { return select(y < Recorded(1), x, Recorded(2)); }));
}

BOOST_AUTO_TEST_SUITE_END()
