/// Reverse-mode automatic differentiation.
///
/// A Variable is a tensor, its gradient and the node that made it. Every differentiable operation makes one node;
/// backward() walks the nodes that a result was made from, from the newest to the oldest.
///
/// Graphs may be built, run and dropped in different threads, one after the other. Passes that run at the same time may
/// share leaves; over shared nodes the second pass is refused.
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

/// A tensor that remembers how it was made. Copies are handles on the same variable.
class Variable {
 public:
  Variable() = default;  ///< undefined
  /// A leaf. One that requires a gradient gets it in grad() when backward() runs.
  Variable(Tensor value, bool requires_grad = false);  // NOLINT: a tensor is a constant variable

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const;
  Tensor& value();  ///< for in-place changes, by optimizers
  const Shape& shape() const { return value().shape(); }
  std::int64_t size(int dim) const { return value().size(dim); }
  int rank() const { return value().rank(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  std::string describe() const { return defined() ? value().describe() : "undefined"; }
  double item() const { return value().item(); }

  /// True for a leaf that was made to have a gradient, and for every variable made from such a leaf.
  bool requires_grad() const;
  bool is_leaf() const;
  /// The sum of the gradients of all backward() passes that reached this leaf; undefined before the first.
  const Variable& grad() const;
  void set_grad(Variable gradient);  ///< of this shape, type and device, or undefined
  void clear_grad() { set_grad({}); }

  /// The same values as a constant, through which no gradient passes.
  Variable detach() const { return Variable(value()); }

  /// Names the variable for printing the tape.
  Variable& named(std::string name);
  const std::string& name() const;

  const std::shared_ptr<Node>& node() const;  ///< null for a leaf
  int output_index() const;                   ///< which of the node's outputs this is
  /// Whether this is the only handle on the variable and on its tensor's storage, so that the buffer may be reused.
  bool is_sole_owner() const { return state_.use_count() == 1 && value().is_sole_owner(); }
  bool is_same(const Variable& other) const { return state_ == other.state_; }
  /// Address of the shared state: an identity for maps.
  const void* id() const { return state_.get(); }

 private:
  friend class Node;
  friend Variable output_of(std::shared_ptr<Node> node, int index, Tensor value);
  friend class Edge;
  friend class Saved;
  /// The shared state; an undefined variable is an error.
  VariableState& state() const;

  std::shared_ptr<VariableState> state_;
};

/// Operations record nodes while this is on (the default). Per thread.
bool grad_enabled();

/// Turns recording off in a scope: evaluation, optimizers.
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

/// Sets recording to a given state in a scope.
class GradMode : public NoGrad {
 public:
  explicit GradMode(bool enabled) : NoGrad(enabled) {}
};

struct BackwardOptions {
  bool retain_graph = false;  ///< keep what the pass would free, to run it again
  bool create_graph = false;  ///< record the pass itself, for second derivatives (implies retain_graph)
  /// Called for every node as its gradients have arrived, before its rule runs.
  std::function<void(const Node&, const Gradients&)> observer = {};
};

/// Adds d root / d leaf to every leaf's grad(); root may itself be a leaf. `gradient` (of root's shape) may be omitted
/// when root has one element.
void backward(const Variable& root, const Variable& gradient = {}, const BackwardOptions& options = {});

/// The gradients of root with respect to `inputs` (leaves or not), without touching any grad(). The gradient of an
/// input that root does not depend on is zeros.
Gradients grad(const Variable& root, const std::vector<Variable>& inputs, const Variable& gradient = {},
               const BackwardOptions& options = {});

/// While on, every operation of this thread checks its result: the first NaN or infinity throws Error with the
/// operation, the shapes and the scope in which it was recorded. The backward pass checks gradients likewise. `where`
/// is not checked, because masks put −inf into logits on purpose.
void set_anomaly_detection(bool on);
bool anomaly_detection();

/// Names a region of the program on the tape: "encoder.0.attention". Scopes nest.
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
