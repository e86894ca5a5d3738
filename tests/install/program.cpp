// A program of another project: it knows fovea by its installed headers and its pkg-config file alone.
#include <cstdio>

#include <tensor/error.h>
#include <tensor/tensor.h>

int main() {
  using namespace fovea;
  Tensor a = Tensor::arange(6).reshape({2, 3});
  std::vector<float> columns = a.transpose(0, 1).to_vector<float>();
  if (columns != std::vector<float>{0, 3, 1, 4, 2, 5}) return 1;
  try {
    a.reshape({4, 2});
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
