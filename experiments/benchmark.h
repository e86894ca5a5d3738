/// The commands of `benchmark`, and functions that several of them use.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/program/program.h"
#include "tensor/tensor.h"

namespace fovea {

void benchmark_step(Cli& cli);
void benchmark_decode(Cli& cli);
void benchmark_gemm(Cli& cli);
void benchmark_attention(Cli& cli);
void benchmark_kernels(Cli& cli);

/// Returns the rate of one f32 product [size, size] by [size, size] on the device now, in GFLOP/s.
double gemm_gflops(std::int64_t size, Device device);

inline double seconds_of(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Draws random sentences. The tokens are at least 4: smaller ones are padding, <unk>, <s> and </s>.
class RandomTokens {
 public:
  explicit RandomTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  /// Returns a sentence of `shortest` to `longest` tokens.
  std::vector<std::int32_t> sentence(std::int64_t shortest, std::int64_t longest);
  std::int32_t between(std::int64_t least, std::int64_t most);

 private:
  std::int64_t vocabulary_;
  std::uint64_t drawn_ = 0;
};

/// Splits "a; b" into "a" and "b".
std::vector<std::string> split_at_semicolons(const std::string& text);

}  // namespace fovea
