// Those situations of situations.py that the Python package cannot make, because they need fovea's operations, layers
// or optimizers. For each the program prints a line: the situation's name, a tab, and what fovea did.
#include <cstdio>
#include <functional>
#include <limits>

#include "autograd/operations.h"
#include "nn/layers.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "tensor/comparison.h"

using namespace fovea;

namespace {

std::string text_of(const Tensor& x) {
  std::string text;
  for (double value : x.to(DType::f64).to_vector<double>())
    text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", value);
  return text;
}

Tensor row(std::vector<double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {n}).to(DType::f32);
}

std::string root_in_a_branch_that_is_not_taken() {
  const Variable x(row({0, 4}), true);
  const Tensor positive = greater(x.value(), row({0}));
  const Variable y = where(positive, sqrt(x), row({0}));
  return "gradient " + text_of(grad(sum(y), {x})[0].value());
}

std::string all_targets_ignored() {
  const Variable logits(row({0.3, -0.7, 1.1, 0.2}).reshape({2, 2}), true);
  return "loss " +
         text_of(cross_entropy_loss(logits, Tensor::from(std::vector<std::int32_t>{-100, -100}, {2})).value());
}

/// A module whose parameters are these rows.
struct Rows : Module {
  explicit Rows(const std::vector<Tensor>& values) {
    for (const Tensor& one : values) {
      rows.push_back(parameter(fmt::format("row_{}", rows.size()), one.shape(), Initializer::constant(0)));
      rows.back().value().copy_from(one);
    }
  }
  std::vector<Variable> rows;
};

std::string norm_that_overflows() {
  Rows module({row({1, 1}), row({1})});
  backward(sum(module.rows[0] * row({3e38, 2e38})) + sum(module.rows[1] * row({1e38})));
  clip_gradients(module.parameters(), 1);
  return "gradients " + text_of(module.rows[0].grad().value()) + ", " + text_of(module.rows[1].grad().value());
}

std::string adam_on_bf16() {
  Rows module({row({1})});
  std::string text;
  try {
    module.to(DType::bf16);
  } catch (const Error& error) {
    text = fmt::format("refused ({}); ", error.what());
  }
  Adam optimizer(module.parameters(), {});
  for (int update = 0; update < 100; ++update) {
    backward(sum(module.rows[0]));
    optimizer.step(1e-3);
    optimizer.zero_grad();
  }
  return text + "in f32 the weight is " + text_of(module.rows[0].value());
}

std::string norm_of_a_huge_layer() {
  LayerNorm norm(4);
  norm.initialise(1);
  return "result " + text_of(norm.forward(Variable(row({1e30, -1e30, 2e30, 0}))).value());
}

}  // namespace

int main() {
  const std::pair<const char*, std::string (*)()> situations[] = {
      {"where", root_in_a_branch_that_is_not_taken},
      {"ignored", all_targets_ignored},
      {"clip", norm_that_overflows},
      {"adam", adam_on_bf16},
      {"norm", norm_of_a_huge_layer},
  };
  for (const auto& [name, run] : situations) {
    std::string result;
    try {
      result = run();
    } catch (const Error& error) {
      result = std::string("Error: ") + error.what();
    }
    std::printf("%s\t%s\n", name, result.c_str());
  }
}
