#include "autograd/tape.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_set>

#include "autograd/node.h"

namespace fovea {

namespace {

/// Returns the nodes that `root` depends on, inputs before results. A loop rather than a recursion, because a long
/// chain of nodes would overflow the stack.
std::vector<const Node*> reachable(const Variable& root) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> found;
  auto visit = [&](const Node* node) {
    if (node && seen.insert(node).second) found.push_back(node);
  };
  visit(root.node().get());
  for (std::size_t k = 0; k < found.size(); ++k)
    for (const Edge& edge : found[k]->inputs()) visit(edge.node.get());
  std::sort(found.begin(), found.end(), [](const Node* a, const Node* b) { return a->sequence() < b->sequence(); });
  return found;
}

std::string leaf_name(const VariableState& leaf) {
  return leaf.name.empty() ? fmt::format("leaf {}", leaf.value.describe()) : leaf.name;
}

/// Numbers the nodes from 1 in the order given. Node::sequence() would give a small example large numbers.
std::map<const Node*, int> numbered(const std::vector<const Node*>& nodes) {
  std::map<const Node*, int> numbers;
  for (const Node* node : nodes) numbers[node] = static_cast<int>(numbers.size()) + 1;
  return numbers;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t output_bytes(const Node& node) {
  std::size_t bytes = 0;
  for (const Shape& shape : node.output_shapes())
    bytes += static_cast<std::size_t>(shape.elements()) * size_of(node.dtype());
  return bytes;
}

}  // namespace

std::string values_text(const Tensor& x, std::int64_t limit) {
  std::vector<double> values = x.to_vector<double>();
  std::int64_t columns = x.rank() ? x.size(-1) : 1, shown = std::min<std::int64_t>(x.elements(), limit);
  std::string text;
  for (std::int64_t i = 0; i < shown; ++i)
    text += fmt::format("{}{:9.5f}", i == 0 ? "" : i % columns == 0 ? "\n" : " ", values[static_cast<std::size_t>(i)]);
  return shown < x.elements() ? text + " ..." : text;
}

std::string tape_text(const Variable& root) {
  auto nodes = reachable(root);
  auto numbers = numbered(nodes);
  std::string text;
  for (const Node* node : nodes) {
    std::string inputs;
    for (const Edge& edge : node->inputs()) {
      if (!inputs.empty()) inputs += ", ";
      inputs += edge.node   ? fmt::format("#{}", numbers[edge.node.get()])
                : edge.leaf ? leaf_name(*edge.leaf)
                            : "constant";
    }
    std::string shapes;
    for (const Shape& shape : node->output_shapes())
      shapes += fmt::format("{}{}", shapes.empty() ? "" : " ", shape.str());
    text += fmt::format("{:>4}  {:<28} {:<14} {:>7} B{}{}\n", fmt::format("#{}", numbers[node]),
                        fmt::format("{}({})", node->name(), inputs), shapes, output_bytes(*node),
                        node->scope().empty() ? "" : "  in ", node->scope());
    for (const Tensor& value : node->output_values())
      for (const std::string& line : lines_of(values_text(value))) text += fmt::format("      {}\n", line);
  }
  return text;
}

std::vector<TapeNode> tape_graph(const Variable& root) {
  const auto nodes = reachable(root);
  const auto numbers = numbered(nodes);
  std::map<const void*, std::size_t> places;  // of operations and leaves
  std::vector<TapeNode> graph;
  auto place_of_leaf = [&](const VariableState& leaf) {
    const auto [found, is_new] = places.try_emplace(&leaf, graph.size());
    if (is_new) graph.push_back({{leaf_name(leaf), leaf.value.shape().str()}, {}, true});
    return found->second;
  };
  for (const Node* node : nodes) {
    TapeNode drawn{{fmt::format("#{} {}", numbers.at(node), node->name())}, {}, false};
    for (const Edge& edge : node->inputs()) {
      if (edge.node) drawn.inputs.push_back(places.at(edge.node.get()));
      if (!edge.node && edge.leaf) drawn.inputs.push_back(place_of_leaf(*edge.leaf));
    }
    for (const Shape& shape : node->output_shapes()) drawn.lines.push_back(shape.str());
    for (const Tensor& value : node->output_values())
      for (const std::string& line : lines_of(values_text(value, 12))) drawn.lines.push_back(line);
    places[node] = graph.size();
    graph.push_back(std::move(drawn));
  }
  return graph;
}

}  // namespace fovea
