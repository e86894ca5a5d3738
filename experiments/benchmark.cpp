// Times training steps, beam search, attention, matrix products and kernels on this machine. Other work on the machine
// changes the times; ratios within one run are reliable, because a run times in turns what it compares.
#include "experiments/benchmark.h"

#include "tensor/formula/philox.h"

std::vector<std::string> fovea::split_at_semicolons(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ';')
      parts.emplace_back();
    else if (c != ' ' || !parts.back().empty())
      parts.back() += c;
  }
  return parts;
}

std::int32_t fovea::RandomTokens::between(std::int64_t least, std::int64_t most) {
  const auto choices = static_cast<std::uint64_t>(most - least + 1);
  return static_cast<std::int32_t>(least + static_cast<std::int64_t>(philox(7, drawn_++).word[0] % choices));
}

std::vector<std::int32_t> fovea::RandomTokens::sentence(std::int64_t shortest, std::int64_t longest) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(between(shortest, longest)));
  for (std::int32_t& token : tokens) token = between(4, vocabulary_ - 1);
  return tokens;
}

int main(int argc, char** argv) {
  using namespace fovea;
  return run("benchmark", argc, argv,
             {{"step", "whole training steps of a model", benchmark_step},
              {"decode", "beam search with a sequence model", benchmark_decode},
              {"attention", "one attention without its projections", benchmark_attention},
              {"gemm", "matrix products", benchmark_gemm},
              {"kernels", "the kernels of a device, and their rates", benchmark_kernels}});
}
