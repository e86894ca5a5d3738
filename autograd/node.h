/// The tape's entries, and how an operation records one. Include this to define a differentiable operation.
#pragma once
#include <atomic>
#include <initializer_list>
#include <mutex>
#include <type_traits>
#include <utility>

#include "autograd/variable.h"

namespace fovea {

struct VariableState {
  Tensor value;
  bool requires_grad = false;
  Variable grad;
  std::mutex grad_mutex;  ///< held by a backward pass while it adds to grad
  std::shared_ptr<Node> node;
  int output = 0;
  std::string name;
  ~VariableState();
};

/// An input of a node, as the place that its gradient goes to: an output of an older node, a leaf, or, for a constant,
/// neither.
class Edge {
 public:
  Edge() = default;
  explicit Edge(const Variable& input);
  bool needs_gradient() const { return node != nullptr || leaf != nullptr; }

  std::shared_ptr<Node> node;
  int output = 0;
  std::shared_ptr<VariableState> leaf;
  Shape shape;  ///< of the input: the engine sums a broadcast gradient down to it
};

class Node;

/// A tensor that a rule keeps and does not differentiate: a result, an index, a condition. get() refuses a tensor that
/// was changed in place since, because the gradient would be wrong. (A tensor that nothing but the rule refers to can
/// be kept as it is.)
class SavedTensor {
 public:
  SavedTensor() = default;
  /// `what` names the tensor's part in the operation, for the error message: "result", "index". A literal.
  SavedTensor(Tensor tensor, const char* what) : tensor_(std::move(tensor)), what_(what), version_(tensor_.version()) {}
  const Tensor& get(const Node& user) const {
    if (tensor_.version() != version_) [[unlikely]]
      refuse(user);
    return tensor_;
  }

 private:
  friend class Saved;
  [[noreturn]] void refuse(const Node& user) const;
  [[noreturn]] static void refuse(const Node& user, const std::string& which, const std::string& happened);

  Tensor tensor_;
  const char* what_ = "";
  std::uint64_t version_ = 0;
};

/// An input that a rule keeps. get() refuses an input that was changed in place, and one whose value() was replaced by
/// another tensor.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Variable& input)
      : variable_(input), saved_(input.defined() ? input.value() : Tensor(), "input") {}
  /// The input as it was when the operation was recorded, differentiable.
  const Variable& get(const Node& user) const {
    if (variable_.defined()) {
      const Tensor& now = variable_.value();
      if (now.version() != saved_.version_ || !now.is_same_view(saved_.tensor_)) [[unlikely]]
        refuse(user);
    }
    return variable_;
  }

 private:
  [[noreturn]] void refuse(const Node& user) const;

  Variable variable_;
  SavedTensor saved_;
};

/// One recorded operation.
class Node : public std::enable_shared_from_this<Node> {
 public:
  /// From the gradients of the outputs (undefined where nothing arrived) to those of the inputs, in their order; an
  /// undefined entry means zero. Gradients may have the broadcast shape: the engine sums them down. Written with
  /// differentiable operations, so that the pass can itself be recorded.
  using Rule = std::function<Gradients(const Gradients& gradients, const Node& node)>;

  class Pass;  ///< a backward pass, in engine.cpp

  Node(std::string_view name, std::vector<Edge> inputs, Rule rule);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::string_view name() const { return name_; }
  const std::string& scope() const { return scope_; }
  /// Greater than that of every node this one depends on. In one thread it is the order of creation.
  std::uint64_t sequence() const { return sequence_; }
  const std::vector<Edge>& inputs() const { return inputs_; }
  bool needs(std::size_t input) const { return inputs_[input].needs_gradient(); }
  const std::vector<Shape>& output_shapes() const { return output_shapes_; }
  const std::vector<Tensor>& output_values() const { return output_values_; }  ///< kept only under KeepValues
  DType dtype() const { return dtype_; }
  /// One of this node's results, for a rule that saved its value: Variable y = node.output(0, saved_value.get(node)).
  Variable output(int index, const Tensor& value) const;

 private:
  friend Variable output_of(std::shared_ptr<Node> node, int index, Tensor value);

  std::string_view name_;
  std::string scope_;
  std::uint64_t sequence_;
  std::vector<Edge> inputs_;
  Rule rule_;
  std::vector<Shape> output_shapes_;
  std::vector<Tensor> output_values_;
  DType dtype_ = DType::f32;

  // While a backward pass has this node: the pass, and the gradients that wait for the node's turn.
  std::atomic<const Pass*> pass_ = nullptr;
  Gradients pending_;
  bool freed_ = false;
};

/// While one of these lives, the nodes that this thread records keep their results' values, for printing the tape.
class KeepValues {
 public:
  KeepValues();
  ~KeepValues();
};

/// The variable that is output `index` of `node`. Outputs are made in order.
Variable output_of(std::shared_ptr<Node> node, int index, Tensor value);

/// Whether an operation on these inputs has to be recorded.
bool should_record(std::initializer_list<const Variable*> inputs);
bool should_record(const std::vector<Variable>& inputs);

/// The node of an operation on `inputs`.
std::shared_ptr<Node> make_node(std::string_view name, const std::vector<Variable>& inputs, Node::Rule rule);

/// For the composed half of a fused_rule: `output` is the operation computed again from `inputs` by small operations.
/// Returns its gradients with respect to `inputs`, recorded, for the gradient `gradient` of the output. The pass stops
/// at the inputs: how they were made does not matter.
Gradients partial_gradients(const Variable& output, const std::vector<Variable>& inputs, const Variable& gradient = {});

/// The rule of an operation that has kernels for its gradients. `fused` runs them. Under create_graph the pass is
/// itself recorded, and `composed` makes the same gradients of operations that can be differentiated again. Both are
/// functions of (kept, gradients, node), where `kept` is what the rule needs of the forward pass.
template <class Kept, class Fused, class Composed>
auto fused_rule(Kept kept, Fused fused, Composed composed) {
  return [=, kept = std::move(kept)](const Gradients& gradients, const Node& node) -> Gradients {
    return grad_enabled() ? composed(kept, gradients, node) : fused(kept, gradients, node);
  };
}

/// The gradient that arrived at an output, or zeros where none did; `output` is the output's value.
Variable or_zeros(const Variable& gradient, const Tensor& output);

/// Wraps an operation's result: a constant where no input needs a gradient, otherwise an output of a new node. `name`
/// is a literal. The rule is a Node::Rule or, for an operation with one input, a function from the gradient of the
/// result, or from that and the node, to the gradient of the input. An operation whose rule keeps tensors asks
/// should_record() first, so that it does not save them in vain.
template <class Rule>
Variable record(std::string_view name, Tensor value, const std::vector<Variable>& inputs, Rule rule) {
  if (!should_record(inputs)) return Variable(std::move(value));
  auto full = [rule = std::move(rule)](const Gradients& gradients, const Node& node) -> Gradients {
    if constexpr (std::is_invocable_v<Rule, const Variable&>)
      return {rule(gradients[0])};
    else if constexpr (std::is_invocable_v<Rule, const Variable&, const Node&>)
      return {rule(gradients[0], node)};
    else
      return rule(gradients, node);
  };
  return output_of(make_node(name, inputs, std::move(full)), 0, std::move(value));
}

}  // namespace fovea
