// A program of another project: it knows fovea by what is installed alone. It adds the method of README.md, trains one
// step of an attention, and loads the checkpoint of that into another attention.
#include <cstdio>

#include <attention/registry.h>
#include <autograd/operations.h>
#include <nn/checkpoint.h>
#include <nn/optimizer.h>
#include <tensor/format/safetensors.h>

#include "decay.h"

namespace {

using namespace fovea;

std::unique_ptr<Attention> attention_with_seed(std::uint64_t seed) {
  auto attention = attention_factory("decay + relative(clip=4)")({.model_dim = 8, .heads = 2});
  attention->initialise(seed);
  return attention;
}

Variable loss_of(Attention& attention) {
  const Variable x(Tensor::arange(40).reshape({1, 5, 8}));
  return sum(square(attention.forward({.query = x, .key = x, .value = x})));
}

}  // namespace

int main() try {
  register_method(method<Decay>());
  const auto trained = attention_with_seed(1), loaded = attention_with_seed(2);
  Adam optimizer(trained->parameters(), {});
  const double before = loss_of(*trained).item();
  backward(loss_of(*trained));
  optimizer.step(1e-3);
  const double after = loss_of(*trained).item();

  const NamedTensors parameters = state(*trained);
  write_safetensors("checkpoint.safetensors", {parameters.begin(), parameters.end()}, {});
  load_state(*loaded, std::filesystem::path("checkpoint.safetensors"));
  const double again = loss_of(*loaded).item();
  std::printf("loss %g before a step, %g after it, %g of the checkpoint\n", before, after, again);
  return after < before && again == after ? 0 : 1;
} catch (const fovea::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
