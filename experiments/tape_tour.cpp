// A tour of automatic differentiation: attention over three tokens, computed step by step, and its backward pass.
#include <vector>

#include <fmt/format.h>

#include "autograd/gradcheck.h"
#include "autograd/node.h"
#include "autograd/operations.h"
#include "autograd/tape.h"
#include "experiments/support/program/device_flag.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/words.h"
#include "tensor/support/atomic_file.h"

namespace {

using namespace fovea;

void show(const std::string& heading, const Variable& x) {
  const std::string rows = values_text(x.value());
  fmt::print("{}   {}\n    {}\n\n", heading, x.shape().str(), fmt::join(split_columns(rows, '\n'), "\n    "));
}

/// The operations of the forward pass in the order in which they are recorded. Their numbers, from #1, are those that
/// tape_text() prints.
class Steps {
 public:
  /// Prints the result of the next operation, and returns it.
  Variable add(const std::string& name, const std::string& formula, const Variable& result) {
    steps_.push_back({name, formula, result.node().get()});
    show(fmt::format("#{}  {} = {}", steps_.size(), name, formula), result);
    return result;
  }
  /// "#7  dL / dO, where O = A V" for the node that computed O.
  std::string gradient_heading(const Node& node) const {
    std::size_t k = 0;
    while (steps_[k].node != &node) ++k;
    return fmt::format("#{}  dL / d{}, where {} = {}", k + 1, steps_[k].name, steps_[k].name, steps_[k].formula);
  }

 private:
  struct Step {
    std::string name, formula;
    const Node* node;
  };
  std::vector<Step> steps_;
};

/// softmax(Q K^T / sqrt(2)) V for three tokens of width two; the loss is the sum of the output's squares.
struct TinyAttention {
  Variable x, query, key, value;

  explicit TinyAttention(Device device)
      : x(leaf({1, 0, 0, 1, 1, 1}, {3, 2}, device, "X")),
        query(leaf({1, 0, 0, 0.5}, {2, 2}, device, "W_Q")),
        key(leaf({0.5, 0.5, 0, 1}, {2, 2}, device, "W_K")),
        value(leaf({1, 0, 1, 1}, {2, 2}, device, "W_V")) {}

  static Variable leaf(std::initializer_list<double> values, const Shape& shape, Device device, const char* name) {
    return Variable(Tensor::of(values, shape).to(device), true).named(name);
  }
  std::vector<Variable> leaves() const { return {x, query, key, value}; }

  /// If there are `steps`, each operation is added to them.
  Variable loss(Steps* steps) const {
    auto step = [&](const char* name, const char* formula, const Variable& result) {
      return steps ? steps->add(name, formula, result) : result;
    };
    Variable q = step("Q", "X W_Q", matmul(x, query));
    Variable k = step("K", "X W_K", matmul(x, key));
    Variable v = step("V", "X W_V", matmul(x, value));
    Variable t = step("K^T", "K transposed", transpose(k, 0, 1));
    Variable z = step("Z", "Q K^T / sqrt(2)", matmul(q, t, {.scale = 0.70710678118654752}));
    Variable a = step("A", "softmax(Z), row by row", softmax(z));
    Variable o = step("O", "A V", matmul(a, v));
    Variable s = step("S", "O * O, element by element", o * o);
    return step("L", "sum of S", sum(s));
  }
};

void tour(const TinyAttention& attention) {
  fmt::print("1. The forward pass. The inputs X, W_Q, W_K and W_V are the leaves of the tape.\n\n");
  for (const Variable& leaf : attention.leaves()) show(leaf.name(), leaf);
  fmt::print("   Each operation computes a value and adds one node to the tape. The number is the node's.\n\n");
  KeepValues keep;
  Steps steps;
  Variable loss = attention.loss(&steps);

  fmt::print(
      "2. The tape. Each node has its operation, its inputs, the shape and the bytes of its result, and here\n"
      "   also the values of the result.\n\n{}\n",
      tape_text(loss));

  fmt::print(
      "3. The backward pass visits the nodes in reverse order. When it comes to a node, the gradient of the node's\n"
      "   result is complete: all nodes that used the result have larger numbers. The node's rule then computes\n"
      "   the gradients of its inputs.\n\n");
  backward(loss, {}, {.observer = [&](const Node& node, const Gradients& gradients) {
             show(steps.gradient_heading(node), gradients[0]);
           }});

  fmt::print("4. The gradients of the leaves.\n\n");
  for (const Variable& leaf : attention.leaves()) show("dL / d" + leaf.name(), leaf.grad());

  fmt::print(
      "5. A check of these gradients. Each element of the leaves is changed a little, and the change of L is\n"
      "   compared with the gradient: ");
  std::string difference =
      gradcheck([&](const std::vector<Variable>&) { return attention.loss(nullptr); }, attention.leaves());
  require(difference.empty(), "gradcheck: {}", difference);
  fmt::print("all agree to six digits.\n");
}

/// The tape in the language of Graphviz.
std::string graph_text(const std::vector<TapeNode>& nodes) {
  std::string text = "digraph tape {\n";
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    std::string label;
    for (const std::string& line : nodes[k].lines) label += line + "\\n";
    text += fmt::format("  {} [shape={}, label=\"{}\"]\n", k, nodes[k].is_leaf ? "oval" : "box", label);
    for (std::size_t input : nodes[k].inputs) text += fmt::format("  {} -> {}\n", input, k);
  }
  return text + "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  return run("tape_tour", argc, argv, [](Cli& cli) {
    std::string device = "cpu", graph;
    cli.describe(
        "A tour of automatic differentiation, to read beside autograd/README.md. It computes attention over three "
        "tokens of two numbers each, with the loss L = sum of (softmax(Q K^T / sqrt(2)) V)^2, and prints in five "
        "parts: "
        "the inputs, weights and the result of every operation; the tape, with one node for each operation; the "
        "gradient at each node in the order of the backward pass; the gradients of X, W_Q, W_K and W_V; and a check of "
        "these by finite differences.");
    device_flag(cli, device);
    cli.option("--graph", graph, "also write the tape into this file, as a graph for Graphviz: dot -Tsvg FILE");
    cli.parse();
    TinyAttention attention(started_device(cli, device));
    tour(attention);
    if (graph.empty()) return;
    KeepValues keep;
    write_file_atomically(graph, graph_text(tape_graph(attention.loss(nullptr))));
  });
}
