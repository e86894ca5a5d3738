// Attention on CUDA tensors, by the composed and the blockwise engine: every method is what it is on the CPU.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "tensor/kernels.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// The output, then the gradients of the states and of every parameter, with one random cotangent.
std::vector<Tensor> output_and_gradients(Attention& attention, Place place, Device device) {
  constexpr std::int64_t B = 2, I = 3, J = 5, d = 6;
  Generator generator(31);
  auto random = [&](const Shape& shape) { return random_tensor(shape, generator).to(device); };
  Variable key(random({B, J, d}), true), query = place == Place::cross ? Variable(random({B, I, d}), true) : key;
  attention.to(device);
  for (auto& parameter : attention.parameters()) Variable(parameter.variable).clear_grad();
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {B}), mask = test_mask(query.size(1), J);
  const std::uint64_t waits = kernels(device).synchronizations();
  Variable out = attention.forward({.query = query,
                                    .key = key,
                                    .value = key,
                                    .key_lengths = lengths.to(device),
                                    .mask = mask.to(device),
                                    .causal = place == Place::decoder});
  backward(out, random(out.shape()));
  BOOST_TEST(kernels(device).synchronizations() == waits, "the host waited for the device");
  std::vector<Tensor> all{out.value()};
  auto add_gradient = [&](const Variable& input) {
    all.push_back(input.grad().defined() ? input.grad().value() : Tensor::zeros(input.shape(), DType::f64, device));
  };
  add_gradient(key);
  add_gradient(query);
  for (auto& parameter : attention.parameters()) add_gradient(parameter.variable);
  return all;
}

void check_alike(const std::vector<Tensor>& cuda, const std::vector<Tensor>& cpu) {
  BOOST_REQUIRE(cuda.size() == cpu.size());
  for (std::size_t k = 0; k < cuda.size(); ++k) {
    BOOST_TEST((cuda[k].device() == Device::cuda));
    const std::vector<double> a = cuda[k].to_vector<double>(), b = cpu[k].to_vector<double>();
    double largest = 0, scale = 1;
    for (double x : b) scale = std::max(scale, std::abs(x));
    for (std::size_t e = 0; e < a.size(); ++e) {
      const double difference = std::abs(a[e] - b[e]);
      largest = difference <= largest ? largest : difference;  // a NaN stays
    }
    BOOST_TEST(largest <= 1e-10 * scale, "tensor " << k << " (0: the output) differs by " << largest);
  }
}

/// Checks all specifications that this thread's engine computes at these places on the CPU. Returns how many, each
/// place counted.
int check_every_method(const std::vector<Place>& places) {
  int computed = 0;
  for (const std::string& specification : all_specifications())
    for (Place place : places) BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) {
        std::unique_ptr<Attention> attention;
        std::vector<Tensor> cpu;
        try {
          attention = random_attention(specification, place);
          cpu = output_and_gradients(*attention, place, Device::cpu);
        } catch (const Error&) {
          continue;  // not defined at this place
        }
        try {
          check_alike(output_and_gradients(*attention, place, Device::cuda), cpu);
          ++computed;
        } catch (const Error& error) {
          BOOST_ERROR(error.what());
        }
      }
  return computed;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_on_cuda)

BOOST_AUTO_TEST_CASE(every_method_computes_on_cuda_what_it_computes_on_the_cpu, *with_cuda()) {
  AttentionEngineScope composed(AttentionEngine::composed);
  BOOST_TEST(check_every_method(all_places()) >= 400);
}

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

BOOST_AUTO_TEST_CASE(so_it_does_in_blocks_of_queries, *with_cuda()) {
  AttentionEngineScope blocks(AttentionEngine::blockwise, 2);
  BOOST_TEST(check_every_method({Place::decoder}) >= 120);
}

BOOST_AUTO_TEST_SUITE_END()
