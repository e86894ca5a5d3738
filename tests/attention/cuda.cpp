// Attention on CUDA tensors with the composed engine gives the results of the CPU, or throws an Error of one line.
#include <cmath>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "tensor/kernels.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

const boost::unit_test::precondition with_cuda([](boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result runs(cuda_is_available());
  runs.message() << "there is no GPU";
  return runs;
});

/// Methods that throw Error on CUDA by their own check, and the text of the error. A method that needs a kernel which
/// CUDA lacks is not listed here: the error comes from the missing kernel.
struct Refused {
  const char* part;  ///< the method's part of a specification
  const char* error;
};
const std::vector<Refused> refused_on_cuda{
    // their indices are made on the CPU
    {"dman", "gather_last: the index is on cpu"},
};

/// Whether the error is one that this specification may throw: one line that names what is missing.
bool is_expected(const std::string& specification, const std::string& error) {
  if (error.find('\n') != std::string::npos) return false;
  for (const KernelEntry* entry : kernel_table(Device::cuda).entries())
    if (!entry->exists() && error.starts_with(fmt::format("{}: there is no kernel for it on cuda", entry->name())))
      return true;
  return std::any_of(refused_on_cuda.begin(), refused_on_cuda.end(), [&](const Refused& refused) {
    return specification.find(refused.part) != std::string::npos && error.starts_with(refused.error);
  });
}

/// The output, then the gradients of the states and of every parameter, with one random cotangent.
std::vector<Tensor> output_and_gradients(Attention& attention, Place place, Device device) {
  constexpr std::int64_t B = 2, I = 3, J = 5, d = 6;
  Generator generator(31);
  auto random = [&](const Shape& shape) { return random_tensor(shape, generator).to(device); };
  Variable key(random({B, J, d}), true), query = place == Place::cross ? Variable(random({B, I, d}), true) : key;
  attention.to(device);
  for (auto& parameter : attention.parameters()) Variable(parameter.variable).clear_grad();
  Variable out = attention.forward({.query = query,
                                    .key = key,
                                    .value = key,
                                    .key_lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {B}).to(device),
                                    .mask = test_mask(query.size(1), J).to(device),
                                    .causal = place == Place::decoder});
  backward(out, random(out.shape()));
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

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_on_cuda)

BOOST_AUTO_TEST_CASE(every_method_computes_on_cuda_what_it_computes_on_the_cpu, *with_cuda) {
  AttentionEngineScope composed(AttentionEngine::composed);
  int defined = 0, computed = 0;                          // specifications in a place
  std::map<std::string, std::set<std::string>> refusals;  // specifications by error
  for (const std::string& specification : all_specifications())
    for (Place place : all_places()) BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) {
        std::unique_ptr<Attention> attention;
        std::vector<Tensor> cpu;
        try {
          attention = random_attention(specification, place);
          cpu = output_and_gradients(*attention, place, Device::cpu);
        } catch (const Error&) {
          continue;  // not defined at this place
        }
        ++defined;
        try {
          check_alike(output_and_gradients(*attention, place, Device::cuda), cpu);
          ++computed;
        } catch (const Error& error) {
          BOOST_TEST(is_expected(specification, error.what()), error.what());
          refusals[error.what()].insert(specification);
        }
      }
  BOOST_TEST_MESSAGE(computed << " of " << defined << " run on cuda");
  for (const auto& [error, specifications] : refusals) {
    BOOST_TEST_MESSAGE(error);
    for (const std::string& specification : specifications) BOOST_TEST_MESSAGE("    " << specification);
  }
  BOOST_TEST(computed >= 150);
}

BOOST_AUTO_TEST_SUITE_END()
