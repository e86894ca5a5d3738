// A program of another project: it knows fovea by its installed headers and its pkg-config file alone.
#include <cstdio>

#include <attention/registry.h>
#include <autograd/operations.h>

int main() try {
  using namespace fovea;
  auto attention = attention_factory("relative(clip=4) + gaussian")({.model_dim = 8, .heads = 2});
  attention->initialise(1);
  Variable x(Tensor::arange(40).reshape({1, 5, 8}), true);
  Variable y = attention->forward({.query = x, .key = x, .value = x});
  backward(sum(square(y)));
  std::printf("%s, and to x %s\n", y.describe().c_str(), x.grad().describe().c_str());
  return x.grad().shape() == x.shape() ? 0 : 1;
} catch (const fovea::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
