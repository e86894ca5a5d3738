/// The tape, and how to define a differentiable operation. The tape is the graph of all recorded operations. Each entry
/// is a Node; its rule computes, in the backward pass, the gradients of the operation's inputs from those of its
/// results.
#pragma once
#include <atomic>
#include <initializer_list>
#include <mutex>
#include <type_traits>
#include <utility>

#include "autograd/variable.h"

namespace fovea {

/// The data of a variable. All copies of a Variable are handles on one VariableState.
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

/// An input of a node: the place to which the backward pass sends the input's gradient. This is output number `output`
/// of an older `node`, or a `leaf`. For a constant input, which gets no gradient, `node` and `leaf` are null.
class Edge {
 public:
  Edge() = default;
  explicit Edge(const Variable& input);
  bool needs_gradient() const { return node != nullptr || leaf != nullptr; }

  std::shared_ptr<Node> node;
  int output = 0;
  std::shared_ptr<VariableState> leaf;
  Shape shape;  ///< of the input; the engine sums a gradient of a broadcast shape to this shape
};

class Node;

/// A tensor that a rule needs in the backward pass but does not differentiate: a result, an index, a condition. get()
/// throws Error if the tensor was changed in place after it was saved, because the gradient would be wrong. (A rule can
/// keep a plain Tensor if nothing else refers to the tensor.)
class SavedTensor {
 public:
  SavedTensor() = default;
  /// `what` is the tensor's role for the error message, such as "result" or "index". Must be a string literal.
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

/// An input that a rule needs in the backward pass. get() throws Error if, since the operation was recorded, the input
/// was changed in place or its value() was replaced by another tensor.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Variable& input)
      : variable_(input), saved_(input.defined() ? input.value() : Tensor(), "input") {}
  /// The input as it was when the operation was recorded. It still has its own node, so that gradients made from it can
  /// themselves be differentiated.
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
  /// The operation's backward function. `gradients` has the gradient of each output, undefined if the root of the pass
  /// does not depend on that output. Returns the gradient of each input, in the order of inputs(); undefined means
  /// zero. If an input was broadcast, its gradient may have the broadcast shape, which the engine sums to the input's.
  /// A rule is written with differentiable operations, so that the backward pass can itself be recorded.
  using Rule = std::function<Gradients(const Gradients& gradients, const Node& node)>;

  class Pass;  ///< a backward pass, in engine.cpp

  Node(std::string_view name, std::vector<Edge> inputs, Rule rule);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::string_view name() const { return name_; }
  const std::string& scope() const { return scope_; }
  /// A number greater than that of every node that this one depends on. Within a thread nodes are numbered in the order
  /// of their creation.
  std::uint64_t sequence() const { return sequence_; }
  const std::vector<Edge>& inputs() const { return inputs_; }
  /// Whether input number `input` needs a gradient.
  bool needs(std::size_t input) const { return inputs_[input].needs_gradient(); }
  const std::vector<Shape>& output_shapes() const { return output_shapes_; }
  const std::vector<Tensor>& output_values() const { return output_values_; }  ///< empty without KeepValues
  DType dtype() const { return dtype_; }
  /// Output number `index` of this node as a Variable, for a rule that saved only the output's value:
  ///   Variable y = node.output(0, saved_value.get(node));
  Variable output(int index, const Tensor& value) const;
  /// The gradient that newer operations have already sent to input number `input`, for a rule whose kernel adds it to
  /// its own gradient: the engine then has nothing to add, which saves a pass over both. The rule must return the sum
  /// as that input's gradient. Undefined if none has arrived, and in a pass that is recorded.
  Variable take_arrived(std::size_t input) const;

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

  // During a backward pass: the pass that has queued this node, and the gradients of the outputs received so far.
  std::atomic<Pass*> pass_ = nullptr;
  Gradients pending_;
  bool freed_ = false;
};

/// For the lifetime of this object, the nodes that this thread records keep the values of their results, for printing
/// the tape.
class KeepValues {
 public:
  KeepValues();
  ~KeepValues();
};

/// Makes the variable that is output `index` of `node`. When an operation is recorded, its outputs must be made in the
/// order 0, 1, 2, …
Variable output_of(std::shared_ptr<Node> node, int index, Tensor value);

/// Whether an operation on these inputs has to be recorded: recording is on and one of them requires a gradient.
bool should_record(std::initializer_list<const Variable*> inputs);
bool should_record(const std::vector<Variable>& inputs);

/// Makes the node of an operation on `inputs`. `name` must be a string literal.
std::shared_ptr<Node> make_node(std::string_view name, const std::vector<Variable>& inputs, Node::Rule rule);

/// Returns the gradients of `output` with respect to `inputs`, given the gradient `gradient` of `output`; by default
/// their computation is recorded. For a rule that computes `output` again from `inputs`, such as the `composed`
/// function of a fused_rule(). The pass stops at `inputs`, even if other operations made them. Unlike in grad(), the
/// gradient of an input that `output` does not depend on is undefined, and only the first of several equal inputs gets
/// a gradient.
Gradients partial_gradients(const Variable& output, const std::vector<Variable>& inputs, const Variable& gradient = {},
                            const BackwardOptions& options = {.create_graph = true});

/// The rule of an operation that has special kernels for its gradients. `fused` runs these kernels. `composed` computes
/// the same gradients with differentiable operations; it is used under create_graph, when the backward pass is itself
/// recorded. Both functions are called with (kept, gradients, node), where `kept` holds what they need from the forward
/// pass.
template <class Kept, class Fused, class Composed>
auto fused_rule(Kept kept, Fused fused, Composed composed) {
  return [=, kept = std::move(kept)](const Gradients& gradients, const Node& node) -> Gradients {
    return grad_enabled() ? composed(kept, gradients, node) : fused(kept, gradients, node);
  };
}

/// Returns the gradient that arrived at an output, or zeros of the shape and type of `output`, the output's value, if
/// `gradient` is undefined.
Variable or_zeros(const Variable& gradient, const Tensor& output);

/// Makes the Variable of an operation's result `value`: the output of a new node or, if should_record(inputs) is false,
/// a constant. `name` must be a string literal. `rule` is a Node::Rule. For an operation with one input it may also be
/// a function rule(gradient) or rule(gradient, node) from the gradient of the result to the gradient of the input. An
/// operation whose rule saves tensors should call should_record() first, and save nothing if it returns false.
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
