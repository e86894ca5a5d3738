// How fast training steps, attention and matrix products are on this machine. Machines are shared and noisy: trust
// ratios of one run, which alternates what it compares.
#include "experiments/benchmark.h"

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

int main(int argc, char** argv) {
  using namespace fovea;
  return run("benchmark", argc, argv,
             {{"step", "whole training steps of an encoder", benchmark_step},
              {"decode", "beam search with a model of sequences", benchmark_decode},
              {"attention", "one attention, without its projections", benchmark_attention},
              {"gemm", "matrix products", benchmark_gemm}});
}
