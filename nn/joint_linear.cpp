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

/// Concatenates tensors along the last dimension.
Tensor side_by_side(const std::vector<Tensor>& pieces) {
  return concat(std::vector<Variable>(pieces.begin(), pieces.end()), -1).value();
}

/// Whether the columns of `right` follow those of `left` in memory, so that both are columns of one larger tensor.
bool are_side_by_side(const Tensor& left, const Tensor& right) {
  const std::weak_ptr<const void> one = left.storage(), other = right.storage();
  if (one.owner_before(other) || other.owner_before(one)) return false;
  Shape shape = right.shape();
  shape[-1] = left.size(-1);
  const std::int64_t step = left.size(-1) * left.strides()[-1] * static_cast<std::int64_t>(size_of(left.dtype()));
  return left.dtype() == right.dtype() && left.shape() == shape && left.strides() == right.strides() &&
         left.address() + step == right.address();
}

/// The tensor that has the columns of x[first], ..., x[end − 1], each of which are_side_by_side() with the next one.
Tensor joined(const std::vector<Tensor>& x, std::size_t first, std::size_t end) {
  Shape shape = x[first].shape();
  for (std::size_t k = first + 1; k < end; ++k) shape[-1] += x[k].size(-1);
  return x[first].as_strided(shape, x[first].strides());
}

/// Calls body(first, end) for the longest stretches first ≤ k < end in which is_joint(k − 1, k) holds.
template <class IsJoint, class Body>
void for_stretches(std::size_t count, const IsJoint& is_joint, const Body& body) {
  for (std::size_t first = 0, end = 1; first < count; first = end++) {
    while (end < count && is_joint(end - 1, end)) ++end;
    body(first, end);
  }
}

/// Adds g Wᵀ to `total`, where W is `weight`. An undefined `total` counts as 0. Works in place unless gradients are
/// recorded.
void add_product(Variable& total, const Variable& g, const Variable& weight) {
  const Variable transposed = transpose(weight, 0, 1);
  if (!total.defined()) {
    total = matmul(g, transposed);
  } else if (grad_enabled()) {
    total = total + matmul(g, transposed);
  } else {
    Tensor sum = total.value();
    gemm(g.value(), transposed.value(), sum, 1, 1);
  }
}

/// Weights and biases of layers that read one input.
struct LayerTensors {
  std::vector<Tensor> weights, biases;
  bool are_joint(std::size_t left, std::size_t right) const {
    return are_side_by_side(weights[left], weights[right]) && are_side_by_side(biases[left], biases[right]);
  }
};

/// Appends the stretches of columns of `all` that have the widths of the weights first ≤ k < end.
void append_columns(std::vector<Tensor>& results, const Tensor& all, const LayerTensors& layers, std::size_t first,
                    std::size_t end) {
  std::int64_t begin = 0;
  for (std::size_t k = first; k < end; ++k) {
    const std::int64_t width = layers.weights[k].size(1);
    results.push_back(end - first == 1 ? all : all.slice(-1, begin, begin + width));
    begin += width;
  }
}

/// Returns x · weight + bias for each pair of weight and bias. The results of one matrix product are columns of it. The
/// CPU computes one product for all pairs. A GPU computes one for each stretch of weights that lie side by side
/// (Module::store_side_by_side()), because concatenating takes more launches than it saves.
std::vector<Tensor> products(const Tensor& x, const LayerTensors& layers) {
  std::vector<Tensor> results;
  const std::size_t count = layers.weights.size();
  if (x.device() == Device::cpu) {
    append_columns(results, matmul_plus_bias(x, side_by_side(layers.weights), side_by_side(layers.biases)), layers, 0,
                   count);
    return results;
  }
  for_stretches(
      count, [&](std::size_t left, std::size_t right) { return layers.are_joint(left, right); },
      [&](std::size_t first, std::size_t end) {
        const Tensor weight = joined(layers.weights, first, end), bias = joined(layers.biases, first, end);
        append_columns(results, matmul_plus_bias(x, weight, bias), layers, first, end);
      });
  return results;
}

/// Which layers' gradients are computed by one product: those whose weights and gradients lie side by side. The kernels
/// of fused attention on a GPU write the gradients of queries, keys and values so.
bool are_joint(const LayerTensors& layers, const std::vector<Tensor>& g, std::size_t left, std::size_t right) {
  return !grad_enabled() && g[left].defined() && g[right].defined() && layers.are_joint(left, right) &&
         are_side_by_side(g[left], g[right]);
}

/// Returns the results of all layers for x [rows, in] as one operation. Every layer must have a bias. The backward pass
/// adds the layers' contributions to the gradient of x inside the products. Where gradients of layers lie apart, each
/// has a product of its own: on the CPU, a single product of the concatenated gradients would not be faster, and
/// concatenating them takes 8 % of the time of the products (for layers of 512 columns each).
std::vector<Variable> one_operation(const std::vector<const Linear*>& layers, const Variable& x) {
  std::vector<Variable> inputs{x};
  LayerTensors tensors;
  for (const Linear* layer : layers) {
    inputs.insert(inputs.end(), {layer->weight(), layer->bias()});
    tensors.weights.push_back(layer->weight().value());
    tensors.biases.push_back(layer->bias().value());
  }
  std::vector<Tensor> values = products(x.value(), tensors);
  std::shared_ptr<Node> node;
  if (should_record(inputs)) {
    auto rule = [saved = std::vector<Saved>(inputs.begin(), inputs.end())](const Gradients& g, const Node& node) {
      Gradients out(saved.size());
      const Variable& x = saved[0].get(node);
      LayerTensors layers;
      std::vector<Tensor> upstream;
      for (std::size_t k = 0; k < g.size(); ++k) {
        layers.weights.push_back(saved[1 + 2 * k].get(node).value());
        layers.biases.push_back(saved[2 + 2 * k].get(node).value());
        upstream.push_back(g[k].defined() ? g[k].value() : Tensor());
      }
      auto needs_all = [&](std::size_t k) { return node.needs(1 + 2 * k) && node.needs(2 + 2 * k); };
      auto is_joint = [&](std::size_t left, std::size_t right) {
        return needs_all(left) && needs_all(right) && are_joint(layers, upstream, left, right);
      };
      for_stretches(g.size(), is_joint, [&](std::size_t first, std::size_t end) {
        if (!g[first].defined()) return;
        const std::size_t weight = 1 + 2 * first, bias = weight + 1;
        const bool is_one = end - first == 1;
        const Variable of_all = is_one ? g[first] : Variable(joined(upstream, first, end)),
                       by = is_one ? saved[weight].get(node) : Variable(joined(layers.weights, first, end));
        if (node.needs(0)) add_product(out[0], of_all, by);
        auto [of_weight, of_bias] = linear_gradients(of_all, x, by, node.needs(weight), node.needs(bias));
        if (is_one) {
          out[weight] = of_weight;
          out[bias] = of_bias;
          return;
        }
        std::vector<Tensor> of_weights, of_biases;
        append_columns(of_weights, of_weight.value(), layers, first, end);
        append_columns(of_biases, of_bias.value(), layers, first, end);
        for (std::size_t k = first; k < end; ++k) {
          out[1 + 2 * k] = of_weights[k - first];
          out[2 + 2 * k] = of_biases[k - first];
        }
      });
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
