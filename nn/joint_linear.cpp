#include "nn/joint_linear.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/gemm.h"

namespace fovea {

namespace {

/// The smallest number of rows of x for which the CPU concatenates the weights. With fewer rows, concatenating them
/// takes longer than a single product saves.
constexpr std::int64_t fewest_rows = 256;

/// Concatenates tensors along the last dimension, the only one in which their sizes may differ.
Tensor side_by_side(const std::vector<const Tensor*>& pieces) {
  Shape shape = pieces[0]->shape();
  shape[-1] = 0;
  for (const Tensor* piece : pieces) shape[-1] += piece->size(-1);
  Tensor all = Tensor::empty(shape, pieces[0]->dtype(), pieces[0]->device());
  std::int64_t begin = 0;
  for (const Tensor* piece : pieces) {
    all.slice(-1, begin, begin + piece->size(-1)).copy_from(*piece);
    begin += piece->size(-1);
  }
  return all;
}

/// Adds g Wᵀ to `total`, where W is `weight`. An undefined `total` counts as 0. Works in place unless gradients are
/// recorded.
void add_product(Variable& total, const Variable& g, const Variable& weight) {
  Variable transposed = transpose(weight, 0, 1);
  if (grad_enabled()) {
    Variable product = matmul(g, transposed);
    total = total.defined() ? total + product : product;
    return;
  }
  const bool first = !total.defined();
  Tensor sum = first ? Tensor::empty({g.size(0), weight.size(0)}, g.dtype(), g.device()) : total.value();
  gemm(g.value(), transposed.value(), sum, 1, first ? 0 : 1);
  total = sum;
}

/// Returns x · weight + bias for each pair of weight and bias. The CPU computes one matrix product, and the results are
/// columns of it. A GPU computes one product for each, because concatenating takes more launches than that.
std::vector<Tensor> products(const Tensor& x, const std::vector<const Tensor*>& weights,
                             const std::vector<const Tensor*>& biases) {
  std::vector<Tensor> results;
  if (x.device() != Device::cpu) {
    for (std::size_t k = 0; k < weights.size(); ++k) results.push_back(matmul_plus_bias(x, *weights[k], *biases[k]));
    return results;
  }
  const Tensor all = matmul_plus_bias(x, side_by_side(weights), side_by_side(biases));
  std::int64_t begin = 0;
  for (const Tensor* weight : weights) {
    results.push_back(all.slice(1, begin, begin + weight->size(1)));
    begin += weight->size(1);
  }
  return results;
}

/// Returns the results of all layers for x [rows, in] as one operation. Every layer must have a bias. The backward pass
/// adds each layer's contribution to the gradient of x by a product of its own. A single product of the concatenated
/// gradients would not be faster, and concatenating them takes 8 % of the time of the products (for layers of 512
/// columns each).
std::vector<Variable> one_operation(const std::vector<const Linear*>& layers, const Variable& x) {
  std::vector<Variable> inputs{x};
  std::vector<const Tensor*> weights, biases;
  for (const Linear* layer : layers) {
    inputs.insert(inputs.end(), {layer->weight(), layer->bias()});
    weights.push_back(&layer->weight().value());
    biases.push_back(&layer->bias().value());
  }
  std::vector<Tensor> values = products(x.value(), weights, biases);
  std::shared_ptr<Node> node;
  if (should_record(inputs)) {
    auto rule = [saved = std::vector<Saved>(inputs.begin(), inputs.end())](const Gradients& g, const Node& node) {
      Gradients out(saved.size());
      const Variable& x = saved[0].get(node);
      for (std::size_t k = 0; k < g.size(); ++k) {
        if (!g[k].defined()) continue;
        const std::size_t weight = 1 + 2 * k, bias = weight + 1;
        if (node.needs(0)) add_product(out[0], g[k], saved[weight].get(node));
        auto [of_weight, of_bias] =
            linear_gradients(g[k], x, saved[weight].get(node), node.needs(weight), node.needs(bias));
        out[weight] = of_weight;
        out[bias] = of_bias;
      }
      return out;
    };
    node = make_node("joint_linear", inputs, std::move(rule));
  }
  std::vector<Variable> results;
  for (std::size_t k = 0; k < layers.size(); ++k)
    results.push_back(node ? output_of(node, static_cast<int>(k), std::move(values[k]))
                           : Variable(std::move(values[k])));
  return results;
}

}  // namespace

std::vector<Variable> forward_together(const std::vector<const Linear*>& layers, const Variable& x) {
  std::vector<Variable> results;
  const bool have_biases =
      std::all_of(layers.begin(), layers.end(), [](const Linear* layer) { return layer->bias().defined(); });
  const bool has_few_rows = x.shape().elements() < fewest_rows * x.size(-1);
  if (layers.size() < 2 || !have_biases || (x.device() == Device::cpu && has_few_rows)) {
    for (const Linear* layer : layers) results.push_back(layer->forward(x));
    return results;
  }
  for (const Linear* layer : layers)
    require(x.size(-1) == layer->weight().size(0),
            "linear: x is {}, the weight {}; x's last size must be the weight's first", x, layer->weight());
  for (Variable& result : one_operation(layers, reshape(x, {-1, x.size(-1)}))) {
    Shape shape = x.shape();
    shape[-1] = result.size(-1);
    results.push_back(reshape(result, shape));
  }
  return results;
}

}  // namespace fovea
