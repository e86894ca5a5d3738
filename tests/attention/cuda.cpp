// Attention on CUDA tensors. attention/properties/engines.cpp compares every method with the CPU, and
// tests/attention/tiles.cpp has more of the fused kernels.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/registry.h"
#include "autograd/operations.h"
#include "nn/encoder_classifier.h"
#include "nn/loss.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"
#include "tests/refusal.h"
#include "tests/several_threads.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, I = 3, J = 5, d = 6;

/// One call of an attention on a device, with the same random states and random numbers on every device.
class DeviceCall {
 public:
  DeviceCall(Attention& attention, Place place, Device device) : device_(device) {
    Variable key(random({B, J, d}), true), query = place == Place::cross ? Variable(random({B, I, d}), true) : key;
    attention.to(device);
    inputs = {key};
    if (place == Place::cross) inputs.push_back(query);
    for (auto& parameter : attention.parameters()) inputs.push_back(parameter.variable);
    const Tensor lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {B}).to(device);
    out = attention.forward({.query = query,
                             .key = key,
                             .value = key,
                             .key_lengths = lengths,
                             .mask = test_mask(query.size(1), J).to(device),
                             .causal = place == Place::decoder});
  }
  Tensor random(const Shape& shape) { return random_tensor(shape, generator_).to(device_); }

  std::vector<Variable> inputs;  ///< states and parameters
  Variable out;

 private:
  Device device_;
  Generator generator_{31};
};

std::uint64_t launches_of(const std::string& kernel) {
  for (const LaunchCount& count : kernels(Device::cuda).launches())
    if (count.kernel == kernel) return count.launches;
  return 0;
}

std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.value());
  return values;
}

/// The gradient of a random sum of all first derivatives: the product of the matrix of second derivatives, of a random
/// sum of the output, with a random vector.
std::vector<Tensor> second_derivatives(Attention& attention, Place place, Device device) {
  DeviceCall call(attention, place, device);
  Variable total;
  const Variable cotangent = call.random(call.out.shape());
  for (const Variable& slope : grad(call.out, call.inputs, cotangent, {.create_graph = true})) {
    const Variable part = sum(slope * call.random(slope.shape()));
    total = total.defined() ? total + part : part;
  }
  return values_of(grad(total, call.inputs));
}

/// The largest difference between numbers, divided by the largest number of b if that is greater than 1.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : std::nan(""), scale = 1;
  for (double x : b) scale = std::max(scale, std::abs(x));
  for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    const double difference = std::abs(a[k] - b[k]);
    largest = difference <= largest ? largest : difference;  // a NaN stays
  }
  return largest / scale;
}

void check_alike(const std::vector<Tensor>& cuda, const std::vector<Tensor>& cpu) {
  BOOST_REQUIRE(cuda.size() == cpu.size());
  for (std::size_t k = 0; k < cuda.size(); ++k) {
    BOOST_TEST((cuda[k].device() == Device::cuda));
    const double largest = largest_difference(cuda[k].to_vector<double>(), cpu[k].to_vector<double>());
    BOOST_TEST(largest <= 1e-10, "tensor " << k << " (0: the output) differs by " << largest);
  }
}

/// Checks that second derivatives are the same on both devices, for all specifications that this thread's engine
/// computes at the place on the CPU. Returns how many.
int check_second_derivatives(const std::vector<std::string>& specifications, Place place) {
  int computed = 0;
  for (const std::string& specification : specifications) BOOST_TEST_CONTEXT(specification) {
      std::unique_ptr<Attention> attention;
      std::vector<Tensor> cpu;
      try {
        attention = random_attention(specification, place);
        cpu = second_derivatives(*attention, place, Device::cpu);
      } catch (const Error&) {
        continue;  // not defined at this place
      }
      check_alike(second_derivatives(*attention, place, Device::cuda), cpu);
      ++computed;
    }
  return computed;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_on_cuda)

BOOST_AUTO_TEST_CASE(every_method_has_the_same_initial_values_on_both_devices, *with_cuda()) {
  int compared = 0;
  for (const std::string& specification : all_specifications())
    for (Place place : all_places()) BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) {
        if (!usable_attention(specification, place)) continue;
        const auto cpu = random_attention(specification, place), cuda = random_attention(specification, place);
        cuda->to(Device::cuda);
        for (Attention* one : {cpu.get(), cuda.get()}) one->initialise(7);
        std::vector<Tensor> on_cpu, on_cuda;
        for (auto& parameter : cpu->parameters()) on_cpu.push_back(parameter.variable.value());
        for (auto& parameter : cuda->parameters()) on_cuda.push_back(parameter.variable.value());
        check_alike(on_cuda, on_cpu);
        ++compared;
      }
  BOOST_TEST(compared >= 400);
}

BOOST_AUTO_TEST_CASE(second_derivatives_on_cuda_are_those_of_the_cpu, *with_cuda()) {
  std::vector<std::string> methods;
  for (const MethodEntry& entry : registered_methods()) methods.emplace_back(entry.card.name);
  {
    AttentionEngineScope composed(AttentionEngine::composed);
    BOOST_TEST(check_second_derivatives(methods, Place::encoder) >= 30);
  }
  {
    AttentionEngineScope fused(AttentionEngine::fused);
    for (Place place : {Place::encoder, Place::decoder})
      BOOST_TEST(check_second_derivatives({"global", "gaussian", "t5", "heads(gaussian*1, sinks*1)"}, place) == 4);
    BOOST_TEST(check_second_derivatives({"flexible"}, Place::cross) == 1);
  }
  AttentionEngineScope blocks(AttentionEngine::blockwise, 2);
  BOOST_TEST(check_second_derivatives({"global", "gaussian", "relative", "window(use=additive)", "alibi+t5+soft_cap"},
                                      Place::decoder) == 5);
}

// On the CPU an error comes at once; on the GPU a kernel reports it, and the next call that waits throws it.
BOOST_AUTO_TEST_CASE(a_wrong_length_or_mask_on_the_device_is_an_error_that_makes_nothing_wait, *with_cuda()) {
  AttentionEngineScope composed(AttentionEngine::composed);
  const auto attention = random_attention("man", Place::encoder);
  attention->to(Device::cuda);
  Generator generator(3);
  const Variable x(random_tensor({B, J, d}, generator).to(Device::cuda), true);
  auto refusal = [&](const std::vector<std::int32_t>& lengths, double number) {
    Tensor mask = test_mask(J, J);
    mask.slice(1, 1, 2).slice(2, 2, 3).slice(3, 4, 5).fill(number);
    const AttentionInput input{.query = x,
                               .key = x,
                               .value = x,
                               .key_lengths = Tensor::from(lengths, {B}).to(Device::cuda),
                               .mask = mask.to(Device::cuda)};
    const std::uint64_t waits = kernels(Device::cuda).synchronizations();
    const Variable out = attention->forward(input);
    backward(sum(out));
    BOOST_TEST(kernels(Device::cuda).synchronizations() == waits);
    return message_of([&] { out.value().to_vector<double>(); });
  };
  BOOST_TEST(refusal({5, 0}, 1) == "no error");
  BOOST_TEST(refusal({5, 6}, 1) == "attention: the key length at [1] of [2] is 6; it must be in 0 to 5");
  BOOST_TEST(refusal({-1, 5}, 1) == "attention: the key length at [0] of [2] is -1; it must be in 0 to 5");
  for (double number : {1.25, -0.25, std::nan("")})
    BOOST_TEST(refusal({5, 3}, number) == "man: the mask at [0, 1, 2, 4] of [1, 2, 5, 5] must be in [0, 1]");
  BOOST_TEST(refusal({5, 3}, 0.5) == "no error");
}

BOOST_AUTO_TEST_CASE(a_repeated_call_copies_nothing_from_the_host, *with_cuda()) {
  AttentionEngineScope composed(AttentionEngine::composed);
  Generator generator(3);
  const Tensor x = random_tensor({B, J, d}, generator).to(Device::cuda), mask = test_mask(J, J).to(Device::cuda),
               lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {B}).to(Device::cuda);
  for (const MethodEntry& entry : registered_methods()) {
    Place place = Place::encoder;
    std::unique_ptr<Attention> attention = usable_attention(entry.card.name, place);
    if (!attention) attention = usable_attention(entry.card.name, place = Place::decoder);
    if (!attention) continue;
    attention->to(Device::cuda);
    auto uploads_of_call = [&] {
      const std::uint64_t before = launches_of("upload");
      const Variable state(x, true);
      backward(sum(attention->forward({.query = state,
                                       .key = state,
                                       .value = state,
                                       .key_lengths = lengths,
                                       .mask = mask,
                                       .causal = place == Place::decoder})));
      return launches_of("upload") - before;
    };
    uploads_of_call();
    BOOST_TEST(uploads_of_call() == 0u, entry.card.name);
  }
}

BOOST_AUTO_TEST_CASE(lengths_on_the_device_are_checked_once_for_all_layers, *with_cuda()) {
  auto checks = [](int layers) {
    EncoderClassifierOptions options;
    options.vocabulary = 9;
    options.encoder = {.layers = layers, .model_dim = 8, .heads = 2, .feed_forward_dim = 8};
    EncoderClassifier model(options, attention_factory("global"));
    model.to(Device::cuda);
    model.initialise(1);
    model.train(false);
    const std::uint64_t before = launches_of("check_range");
    model.forward(Tensor::full({2, 5}, 3, DType::i32),
                  Tensor::from(std::vector<std::int32_t>{5, 3}, {2}).to(Device::cuda));
    return launches_of("check_range") - before;
  };
  BOOST_TEST(checks(3) > 0u);
  BOOST_TEST(checks(3) == checks(1));
}

BOOST_AUTO_TEST_CASE(several_threads_compute_on_the_device_what_one_thread_computes, *with_cuda()) {
  constexpr int threads = 4, rounds = 3;
  AttentionEngineScope composed(AttentionEngine::composed);
  for (const char* specification : {"gaussian", "relative", "alibi+t5", "rotary+sinks(logit=true)"}) {
    const auto shared = random_attention(specification, Place::encoder);
    using Results = std::vector<std::vector<double>>;
    auto run = [&](int thread, Device device) {
      Generator generator(static_cast<std::uint64_t>(thread));
      Results results;
      for (int round = 0; round < rounds; ++round) {
        const std::int64_t T = 3 + thread + round;
        const Tensor lengths = Tensor::from(std::vector<std::int32_t>{static_cast<std::int32_t>(T), 2}, {B});
        std::vector<Variable> inputs{Variable(random_tensor({B, T, d}, generator).to(device), true)};
        for (const NamedParameter& parameter : shared->parameters()) inputs.push_back(parameter.variable);
        const Variable out = shared->forward(
            {.query = inputs[0], .key = inputs[0], .value = inputs[0], .key_lengths = lengths.to(device)});
        results.push_back(out.value().to_vector<double>());
        for (const Variable& gradient : grad(sum(square(out)), inputs))
          results.push_back(gradient.value().to_vector<double>());
      }
      return results;
    };
    std::vector<Results> on_cpu, alone, together(threads);
    for (int thread = 0; thread < threads; ++thread) on_cpu.push_back(run(thread, Device::cpu));
    shared->to(Device::cuda);
    const std::vector<std::string> errors = run_on_threads(threads, [&](int thread) {
      AttentionEngineScope composed(AttentionEngine::composed);
      together[static_cast<std::size_t>(thread)] = run(thread, Device::cuda);
    });
    for (int thread = 0; thread < threads; ++thread) alone.push_back(run(thread, Device::cuda));
    BOOST_TEST_CONTEXT(specification) {
      for (const std::string& error : errors) BOOST_TEST(error == "");
      BOOST_TEST((together == alone));
      for (std::size_t thread = 0; thread < threads; ++thread)
        for (std::size_t k = 0; k < alone[thread].size(); ++k)
          BOOST_TEST(largest_difference(alone[thread][k], on_cpu[thread][k]) <= 1e-10);
    }
  }
}

/// The loss of a small classifier and the gradients of its parameters, all as one list of numbers each.
std::vector<std::vector<double>> loss_and_gradients(Device device, Precision precision) {
  const Precision before = matmul_precision();
  set_matmul_precision(precision);
  EncoderClassifierOptions options;
  options.vocabulary = 50;
  options.encoder = {.layers = 2, .model_dim = 32, .heads = 4, .feed_forward_dim = 64};
  EncoderClassifier model(options, attention_factory("relative"));
  model.to(device);
  model.initialise(1);
  std::vector<std::int32_t> tokens, labels;
  for (int k = 0; k < 6 * 11; ++k) tokens.push_back(4 + k * k % 46);
  for (int row = 0; row < 6; ++row) labels.push_back(row % 2);
  model.train(false);
  const Variable loss = cross_entropy_loss(
      model.forward(Tensor::from(tokens, {6, 11}), Tensor::from(std::vector<std::int32_t>{11, 3, 7, 1, 10, 5}, {6})),
      Tensor::from(labels, {6}));
  backward(loss);
  std::vector<std::vector<double>> all{{loss.item()}, {}};
  for (const NamedParameter& p : model.parameters()) {
    if (!p.variable.grad().defined()) continue;
    const std::vector<double> gradient = p.variable.grad().value().to_vector<double>();
    all[1].insert(all[1].end(), gradient.begin(), gradient.end());
  }
  set_matmul_precision(before);
  return all;
}

// The README promises these distances. The CPU rounds the operands of large products only, CUDA those of all.
BOOST_AUTO_TEST_CASE(bf16_on_cuda_is_as_near_to_the_cpu_as_promised, *with_cuda()) {
  AttentionEngineScope composed(AttentionEngine::composed);
  auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double difference = 0, size = 0;
    for (std::size_t k = 0; k < a.size(); ++k) difference += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return std::sqrt(difference / size);
  };
  const auto exact = loss_and_gradients(Device::cpu, Precision::f32),
             cpu = loss_and_gradients(Device::cpu, Precision::bf16),
             cuda = loss_and_gradients(Device::cuda, Precision::bf16);
  for (const auto* other : {&exact, &cpu}) {
    BOOST_TEST(distance(cuda[0], (*other)[0]) < 0.002);
    BOOST_TEST(distance(cuda[1], (*other)[1]) < 0.02);
  }
  BOOST_TEST(distance(cuda[1], exact[1]) > 1e-4);  // it did round
}

BOOST_AUTO_TEST_SUITE_END()
