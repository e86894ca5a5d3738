// All engines compute the same, on the CPU and on a GPU.
#include "attention/properties/engines.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <omp.h>

#include "attention/engine/attend.h"
#include "attention/properties/property.h"
#include "autograd/operations.h"
#include "tensor/error.h"

namespace fovea::properties {

const std::vector<Sizes> all_sizes{{2, 4, 5, {5, 3}},
                                   {3, 17, 33, {33, 0, 16}},
                                   {1, 300, 290, {281}},
                                   {40, 3, 7, std::vector<std::int32_t>(40, 6)},
                                   {2, 9, 12, {12, 7}, true}};

std::vector<Tensor> output_and_gradients(Attention& attention, Place place, const Sizes& sizes, DType dtype,
                                         AttentionTrace* trace, Device device) {
  Generator generator(31);
  auto random = [&](const Shape& shape) { return random_tensor(shape, generator).to(dtype).to(device); };
  attention.to(device);
  Variable key(random({sizes.sentences, sizes.keys, 6}), true);
  Variable query = place == Place::cross ? Variable(random({sizes.sentences, sizes.queries, 6}), true) : key;
  std::vector<Variable> inputs{key, query};
  for (auto& parameter : attention.parameters()) inputs.push_back(parameter.variable);
  const std::uint64_t waits = kernels(device).synchronizations();
  Tensor allowed;
  if (sizes.are_masked) {
    std::vector<std::uint8_t> pairs;
    for (double x : random_tensor({query.size(1), sizes.keys}, generator, 0, 1).to_vector<double>())
      pairs.push_back(x < 2. / 3);
    allowed = Tensor::from(pairs, {1, 1, query.size(1), sizes.keys}).to(device);
  }
  const Variable out = attention.forward({.query = query,
                                          .key = key,
                                          .value = key,
                                          .key_lengths = lengths_of(sizes.lengths).to(device),
                                          .mask = mask_for(attention, query.size(1), key.size(1)).to(dtype).to(device),
                                          .allowed = allowed,
                                          .causal = place == Place::decoder,
                                          .trace = trace});
  std::vector<Tensor> all{out.value()};
  for (const Variable& gradient : grad(out, inputs, random(out.shape()))) all.push_back(gradient.value());
  require(device == Device::cpu || kernels(device).synchronizations() == waits, "the host waited for the device");
  return all;
}

void require_alike(const std::vector<Tensor>& one, const std::vector<Tensor>& other, double tolerance,
                   const std::string& what) {
  for (std::size_t k = 0; k < std::max(one.size(), other.size()); ++k) {
    double scale = 1;
    for (double x : other.at(k).to_vector<double>()) scale = std::max(scale, std::abs(x));
    require_near(one.at(k), other[k], tolerance * scale,
                 fmt::format("{}, tensor {} (0: output, then gradients of keys, queries, parameters)", what, k));
  }
}

namespace {

std::vector<Tensor> computed_by(AttentionEngine engine, const Subject& subject, const Sizes& sizes,
                                DType dtype = DType::f64) {
  AttentionEngineScope chosen(engine, 4);  // blocks of 4 queries; the last one is shorter
  return output_and_gradients(subject.attention, subject.place, sizes, dtype);
}

bool fused_equals_composed_in_value_and_gradient(const Subject& subject) {
  if (!has_fused_form(subject.specification)) return false;
  for (const Sizes& sizes : all_sizes)
    require_alike(computed_by(AttentionEngine::fused, subject, sizes),
                  computed_by(AttentionEngine::composed, subject, sizes), 1e-11,
                  fmt::format("fused and composed, {} keys", sizes.keys));
  return true;
}

bool fused_equals_composed_in_f32(const Subject& subject) {
  if (!has_fused_form(subject.specification)) return false;
  subject.attention.to(DType::f32);
  require_alike(computed_by(AttentionEngine::fused, subject, all_sizes[1], DType::f32),
                computed_by(AttentionEngine::composed, subject, all_sizes[1], DType::f32), 2e-4,
                "fused and composed in f32");
  return true;
}

bool blockwise_equals_composed_in_value_and_gradient(const Subject& subject) {
  for (const Sizes& sizes : {all_sizes[0], all_sizes[1]})
    require_alike(computed_by(AttentionEngine::blockwise, subject, sizes),
                  computed_by(AttentionEngine::composed, subject, sizes), 1e-11,
                  fmt::format("blockwise and composed, {} keys", sizes.keys));
  return true;
}

/// The number of threads of what this thread computes, until the end of a scope.
struct ThreadsScope {
  explicit ThreadsScope(int threads) { omp_set_num_threads(threads); }
  ~ThreadsScope() { omp_set_num_threads(before); }
  const int before = omp_get_max_threads();
};

bool several_threads_compute_what_one_computes(const Subject& subject) {
  if (!has_fused_form(subject.specification)) return false;
  auto computed_on = [&](int threads, const Sizes& sizes) {
    const ThreadsScope chosen(threads);
    return computed_by(AttentionEngine::fused, subject, sizes);
  };
  for (const Sizes& sizes : {all_sizes[2], all_sizes[3]})
    require_alike(computed_on(4, sizes), computed_on(1, sizes), 1e-11, "on four threads and on one");
  return true;
}

/// The gradients of a sum of squares and, if `twice`, those of the sum of their squares.
std::vector<Tensor> slopes(const Subject& subject, AttentionEngine engine, bool twice) {
  AttentionEngineScope chosen(engine);
  Generator generator(9);
  Variable y(random_tensor({2, 5, 6}, generator), true);
  Variable x = subject.place == Place::cross ? Variable(random_tensor({2, 4, 6}, generator), true) : y;
  std::vector<Variable> inputs{x, y};
  for (auto& parameter : subject.attention.parameters()) inputs.push_back(parameter.variable);
  Variable out = subject.attention.forward({.query = x,
                                            .key = y,
                                            .value = y,
                                            .mask = mask_for(subject.attention, x.size(1), 5),
                                            .causal = subject.place == Place::decoder});
  std::vector<Variable> gradients = grad(sum(out * out), inputs, {}, {.create_graph = twice});
  if (twice) {
    Variable squares = sum(square(gradients[0]));
    for (std::size_t k = 1; k < inputs.size(); ++k) squares = squares + sum(square(gradients[k]));
    for (const Variable& gradient : grad(squares, inputs)) gradients.push_back(gradient);
  }
  std::vector<Tensor> all;
  for (const Variable& gradient : gradients) all.push_back(gradient.value());
  return all;
}

bool second_derivatives_equal_those_of_the_composed_engine(const Subject& subject) {
  if (!has_fused_form(subject.specification)) return false;
  const std::vector<Tensor> composed = slopes(subject, AttentionEngine::composed, true),
                            first(composed.begin(), composed.begin() + std::ssize(composed) / 2);
  double largest = 1;  // of all: some second derivatives are 0 but for rounding, others thousands
  for (const Tensor& x : composed)
    for (double value : x.to_vector<double>()) largest = std::max(largest, std::abs(value));
  require_alike(slopes(subject, AttentionEngine::fused, true), composed, 1e-10 * largest + 1e-9,
                "first and second derivatives");
  require_alike(slopes(subject, AttentionEngine::fused, false), first, 1e-10, "first derivatives");
  return true;
}

bool has_nan(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

bool a_parameter_that_is_nan_is_seen_in_the_output(const Subject& subject) {
  for (auto& parameter : subject.attention.parameters()) {
    Variable variable = parameter.variable;
    const Tensor before = variable.value().clone();
    auto output = [&](AttentionEngine engine) { return computed_by(engine, subject, all_sizes[0])[0]; };
    const Tensor known = output(AttentionEngine::composed);
    Generator generator(8);
    variable.value().copy_from(random_tensor(variable.shape(), generator, -3, 3));
    const bool is_read = output(AttentionEngine::composed).to_vector<double>() != known.to_vector<double>();
    variable.value().fill(std::numeric_limits<double>::quiet_NaN());
    require(!is_read || has_nan(output(AttentionEngine::composed)), "{} is NaN, and the output is not", parameter.name);
    require(!is_read || !has_fused_form(subject.specification) || has_nan(output(AttentionEngine::fused)),
            "{} is NaN, and the output of the fused engine is not", parameter.name);
    variable.value().copy_from(before);
  }
  return true;
}

/// Checks that the engine computes on a GPU what the composed engine computes on the CPU.
void compare_devices(const Subject& subject, AttentionEngine engine) {
  const Sizes sizes{2, 3, 5, {5, 3}};
  const std::vector<Tensor> cpu = computed_by(AttentionEngine::composed, subject, sizes);
  AttentionEngineScope chosen(engine, 2);
  require_alike(output_and_gradients(subject.attention, subject.place, sizes, DType::f64, nullptr, Device::cuda), cpu,
                1e-10, "on the GPU and on the CPU");
}

bool a_gpu_computes_what_the_cpu_computes(const Subject& subject) {
  compare_devices(subject, AttentionEngine::composed);
  if (subject.place == Place::decoder) compare_devices(subject, AttentionEngine::blockwise);
  return true;
}

bool fused_kernels_of_a_gpu_compute_what_the_cpu_computes(const Subject& subject) try {
  compare_devices(subject, AttentionEngine::fused);
  return true;
} catch (const NoFusedForm&) {
  return false;
}

}  // namespace

std::vector<Property> engine_properties() {
  return {
      {"fused_equals_composed_in_value_and_gradient", fused_equals_composed_in_value_and_gradient},
      {"fused_equals_composed_in_f32", fused_equals_composed_in_f32},
      {"blockwise_equals_composed_in_value_and_gradient", blockwise_equals_composed_in_value_and_gradient},
      {"several_threads_compute_what_one_computes", several_threads_compute_what_one_computes},
      {"second_derivatives_equal_those_of_the_composed_engine", second_derivatives_equal_those_of_the_composed_engine},
      {"a_parameter_that_is_nan_is_seen_in_the_output", a_parameter_that_is_nan_is_seen_in_the_output},
      {"a_gpu_computes_what_the_cpu_computes", a_gpu_computes_what_the_cpu_computes, true},
      {"fused_kernels_of_a_gpu_compute_what_the_cpu_computes", fused_kernels_of_a_gpu_compute_what_the_cpu_computes,
       true}};
}

}  // namespace fovea::properties
