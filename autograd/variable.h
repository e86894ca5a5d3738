/// Reverse-mode automatic differentiation.
///
/// A Variable is a tensor, its gradient and the node that made it. Every differentiable operation makes one node, which
/// refers to the nodes of the operation's inputs. backward() visits the nodes that a result depends on, from the newest
/// to the oldest.
///
/// A graph of nodes may be built in one thread, differentiated in another and destroyed in a third, one after the
/// other. Backward passes that run at the same time may share leaves. If they share nodes, the second pass throws
/// Error.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace fovea {

class Node;
class Variable;
using Gradients = std::vector<Variable>;

struct VariableState;

/// A tensor with the node of the operation that made it. Copies are handles on the same variable.
class Variable {
 public:
  Variable() = default;  ///< undefined
  /// Makes a leaf, a variable that no operation made. If it requires a gradient, backward() adds the gradient to
  /// grad().
  Variable(Tensor value, bool requires_grad = false);  // NOLINT: a tensor is a constant variable

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const;
  Tensor& value();  ///< for in-place changes, by optimizers
  /// The value as an operand of the operation `what`, which the Error for an undefined variable names.
  const Tensor& value_for(const char* what) const;
  const Shape& shape() const { return value().shape(); }
  std::int64_t size(int dim) const { return value().size(dim); }
  int rank() const { return value().rank(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  std::string describe() const { return defined() ? value().describe() : "undefined"; }
  double item() const { return value().item(); }

  /// Whether this is a leaf constructed with requires_grad, or was computed from such a leaf.
  bool requires_grad() const;
  bool is_leaf() const;
  /// The sum of the gradients of all backward() passes that reached this leaf; undefined before the first.
  const Variable& grad() const;
  /// `gradient` must have this variable's shape, type and device, or be undefined; otherwise throws Error.
  void set_grad(Variable gradient);
  void clear_grad() { set_grad({}); }

  /// A constant with the same tensor, through which no gradient passes.
  Variable detach() const { return Variable(value()); }

  /// Names the variable for printing the tape.
  Variable& named(std::string name);
  const std::string& name() const;

  const std::shared_ptr<Node>& node() const;  ///< null for a leaf
  int output_index() const;                   ///< number of this variable among the node's outputs
  /// Whether this is the only handle on the variable and on its tensor's storage, so that the buffer may be reused.
  bool is_sole_owner() const { return state_.use_count() == 1 && value().is_sole_owner(); }
  bool is_same(const Variable& other) const { return state_ == other.state_; }
  /// The address of the state that all handles on this variable share, which identifies the variable in maps.
  const void* id() const { return state_.get(); }

 private:
  friend class Node;
  friend Variable output_of(std::shared_ptr<Node> node, int index, Tensor value);
  friend class Edge;
  friend class Saved;
  /// The state that all handles share. Throws Error for an undefined variable.
  VariableState& state() const;

  std::shared_ptr<VariableState> state_;
};

/// Whether operations on this thread record nodes, which backward() needs. True by default.
bool grad_enabled();

/// Turns recording off on this thread for the lifetime of the object, for example in evaluation and in optimizers.
class NoGrad {
 public:
  NoGrad() : NoGrad(false) {}
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 protected:
  explicit NoGrad(bool enabled);

 private:
  bool before_;
};

/// Turns recording on or off on this thread for the lifetime of the object.
class GradMode : public NoGrad {
 public:
  explicit GradMode(bool enabled) : NoGrad(enabled) {}
};

struct BackwardOptions {
  bool retain_graph = false;  ///< keep the graph, which the pass otherwise frees, for another pass
  bool create_graph = false;  ///< record the pass itself, for second derivatives; implies retain_graph
  /// Called for every node with the gradients of its outputs, before its backward rule runs.
  std::function<void(const Node&, const Gradients&)> observer = {};
  /// If set, backward() calls it with each leaf and the gradient of this pass, in place of adding the gradient to
  /// grad(). The call comes as soon as no node can add to the gradient any more, while the pass goes on with other
  /// nodes: data parallelism sends gradients at that time. A pass that throws may have made some of the calls.
  std::function<void(const Variable& leaf, const Variable& gradient)> leaf_finished = {};
};

/// Adds the gradient of `root` with respect to each leaf to the leaf's grad(). `root` may itself be a leaf. `gradient`,
/// of root's shape, is the gradient with respect to root that the pass starts from; if omitted it is 1, and root must
/// have one element.
void backward(const Variable& root, const Variable& gradient = {}, const BackwardOptions& options = {});

/// Returns the gradients of `root` with respect to `inputs`, which need not be leaves, and changes no grad(). The
/// gradient of an input that root does not depend on is zeros. `gradient` as for backward().
Gradients grad(const Variable& root, const std::vector<Variable>& inputs, const Variable& gradient = {},
               const BackwardOptions& options = {});

/// While on, every operation that this thread records checks its result, and every backward pass on this thread checks
/// its gradients. The first NaN or infinity throws Error with the operation, the shape and the Scope in which it was
/// recorded. The result of `where` is not checked, because masks put −inf into logits on purpose.
void set_anomaly_detection(bool on);

/// Labels the nodes that this thread records during the object's lifetime, such as "encoder.0.attention", for error
/// messages and for printing the tape. Names of nested scopes are joined by dots.
class Scope {
 public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::size_t before_;
};

}  // namespace fovea
