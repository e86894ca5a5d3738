// Recording of operations, and the backward pass.
#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "autograd/scope_times.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/kernels.h"
#include "tensor/map.h"
#include "tensor/reduce.h"

namespace fovea {

namespace {

/// The state of recording on one thread: its modes, the current scope, and Node::sequence() of the next node.
struct Recording {
  std::uint64_t next_sequence = 0;
  bool on = true;
  bool anomaly = false;
  int keep_values = 0;
  std::string scope;
  ScopeTimes* times = nullptr;
};

thread_local Recording recording;

/// The nodes that drop_reference() is destroying on this thread; null while drop_reference() is not running. A pointer
/// and no object: a static Variable may be destroyed at the program's end, when thread_local objects are gone already.
thread_local std::vector<std::shared_ptr<Node>>* released = nullptr;

/// Drops a reference to a node. The destructor of a node calls this function for the node's inputs. To avoid deep
/// recursion, nested calls only add nodes to `released`, and the outermost call destroys them in a loop: a chain of
/// 200 000 nodes, each destroyed from another's destructor, would overflow the stack.
void drop_reference(std::shared_ptr<Node> node) {
  if (node.use_count() != 1) return;
  if (released) return released->push_back(std::move(node));
  std::vector<std::shared_ptr<Node>> nodes;
  released = &nodes;
  nodes.push_back(std::move(node));
  while (!nodes.empty()) {
    std::shared_ptr<Node> last = std::move(nodes.back());
    nodes.pop_back();
  }
  released = nullptr;
}

/// Protects Node::inputs_ and Node::freed_: a backward pass may free the inputs of nodes while another thread's grad()
/// searches the graph (find_relevant()).
std::mutex structure;

/// Throws Error if `value` has a NaN or an infinity. `what` is "result" or "gradient".
void check_finite(std::string_view operation, const std::string& scope, const Tensor& value, const char* what) {
  if (!is_float(value.dtype()) || value.elements() == 0) return;
  double total = sum(map(Affine{0, 0}, value.to(DType::f64))).item();  // 0 · x is NaN exactly where x is not finite
  require(total == 0, "{}: the {} {} has a NaN or an infinity{}", operation, what, value,
          scope.empty() ? std::string() : fmt::format("; recorded in {}", scope));
}

/// Throws Error, which begins with `what`, unless a gradient has the shape, type and device of a variable. `which` is
/// what the message calls the variable.
void require_alike(const char* what, const Variable& gradient, const char* which, const Variable& x) {
  require(gradient.shape() == x.shape() && gradient.dtype() == x.dtype(),
          "{}: the gradient is {}, {} {}; they must be alike", what, gradient, which, x);
  require(gradient.device() == x.device(), "{}: the gradient is on {}, {} on {}; move one of them", what,
          name(gradient.device()), which, name(x.device()));
}

}  // namespace

VariableState::~VariableState() { drop_reference(std::move(node)); }

// ---- Variable ----

Variable::Variable(Tensor value, bool requires_grad) : state_(std::make_shared<VariableState>()) {
  require(!requires_grad || is_float(value.dtype()), "Variable: only floating-point tensors have gradients, not {}",
          value);
  state_->value = std::move(value);
  state_->requires_grad = requires_grad;
}

VariableState& Variable::state() const {
  require(defined(), "Variable: undefined; it was never given a value");
  return *state_;
}
const Tensor& Variable::value() const { return state().value; }
const Tensor& Variable::value_for(const char* what) const {
  require(defined(), "{}: an operand is undefined; it was never given a value", what);
  return state_->value;
}
Tensor& Variable::value() { return state().value; }
bool Variable::requires_grad() const { return state_ && (state_->requires_grad || state_->node); }
bool Variable::is_leaf() const { return !state_ || !state_->node; }

const Variable& Variable::grad() const {
  static const Variable none;
  return state_ ? state_->grad : none;
}
void Variable::set_grad(Variable gradient) {
  VariableState& own = state();
  if (gradient.defined()) require_alike("set_grad", gradient, "the variable", *this);
  require(!gradient.defined() || !gradient.is_same(*this), "set_grad: a variable cannot be its own gradient");
  own.grad = std::move(gradient);
}

Variable& Variable::named(std::string name) {
  state().name = std::move(name);
  return *this;
}
const std::string& Variable::name() const {
  static const std::string none;
  return state_ ? state_->name : none;
}
const std::shared_ptr<Node>& Variable::node() const {
  static const std::shared_ptr<Node> none;
  return state_ ? state_->node : none;
}
int Variable::output_index() const { return state_ ? state_->output : 0; }

// ---- Recording ----

bool grad_enabled() { return recording.on; }
NoGrad::NoGrad(bool enabled) : before_(recording.on) { recording.on = enabled; }
NoGrad::~NoGrad() { recording.on = before_; }

void set_anomaly_detection(bool on) { recording.anomaly = on; }

Scope::Scope(std::string_view name) : before_(recording.scope.size()) {
  if (before_ && !name.empty()) recording.scope += '.';
  recording.scope += name;
  if (recording.times) recording.times->enter();
}
Scope::~Scope() {
  if (recording.times) recording.times->leave(recording.scope);
  recording.scope.resize(before_);
}

ScopeTimes::ScopeTimes() {
  require(!recording.times, "ScopeTimes: another one measures on this thread");
  recording.times = this;
}
ScopeTimes::~ScopeTimes() { recording.times = nullptr; }

KeepValues::KeepValues() { ++recording.keep_values; }
KeepValues::~KeepValues() { --recording.keep_values; }

Edge::Edge(const Variable& input) {
  if (!input.requires_grad()) return;
  node = input.node();
  output = input.output_index();
  if (!node) leaf = input.state_;
  shape = input.shape();
}

void SavedTensor::refuse(const Node& user) const {
  refuse(user, fmt::format("its {}, {},", what_, tensor_),
         fmt::format("changed in place (version {}, saved at {})", tensor_.version(), version_));
}

void SavedTensor::refuse(const Node& user, const std::string& which, const std::string& happened) {
  fail("{}: {} was saved for the backward pass and then {}; change a clone instead, or wait for the pass{}",
       user.name(), which, happened, user.scope().empty() ? std::string() : "; recorded in " + user.scope());
}

void Saved::refuse(const Node& user) const {
  std::string place = "a constant input";
  for (std::size_t k = 0; k < user.inputs().size(); ++k) {
    const Edge& edge = user.inputs()[k];
    bool is_it = edge.node ? edge.node == variable_.node() && edge.output == variable_.output_index()
                           : edge.leaf && edge.leaf == variable_.state_;
    if (is_it) place = fmt::format("input {}", k);
  }
  const Tensor& now = variable_.value();
  std::string name = variable_.name().empty() ? "" : fmt::format("'{}', ", variable_.name());
  std::string happened = now.is_same_view(saved_.tensor_)
                             ? fmt::format("changed in place (version {}, saved at {})", now.version(), saved_.version_)
                             : fmt::format("replaced by another tensor, {}", now);
  SavedTensor::refuse(user, fmt::format("{}, {}{},", place, name, saved_.tensor_), happened);
}

Node::Node(std::string_view name, std::vector<Edge> inputs, Rule rule)
    : name_(name),
      scope_(recording.scope),
      sequence_(recording.next_sequence),
      inputs_(std::move(inputs)),
      rule_(std::move(rule)) {
  // An input may come from another thread, where sequence numbers have grown further.
  for (const Edge& edge : inputs_)
    if (edge.node) sequence_ = std::max(sequence_, edge.node->sequence_ + 1);
  recording.next_sequence = sequence_ + 1;
}

Node::~Node() {
  for (Edge& edge : inputs_) drop_reference(std::move(edge.node));
}

Variable Node::output(int index, const Tensor& value) const {
  return output_of(std::const_pointer_cast<Node>(shared_from_this()), index, value);
}

Variable output_of(std::shared_ptr<Node> node, int index, Tensor value) {
  // True while the operation is being recorded, false for calls from Node::output() in a backward pass.
  if (static_cast<std::size_t>(index) == node->output_shapes_.size()) {
    if (recording.anomaly && node->name() != "where") check_finite(node->name(), node->scope(), value, "result");
    node->output_shapes_.push_back(value.shape());
    node->dtype_ = value.dtype();
    if (recording.keep_values) node->output_values_.push_back(value);
  }
  Variable out(std::move(value));
  out.state_->node = std::move(node);
  out.state_->output = index;
  return out;
}

bool should_record(std::initializer_list<const Variable*> inputs) {
  return recording.on && std::any_of(inputs.begin(), inputs.end(), std::mem_fn(&Variable::requires_grad));
}

bool should_record(const std::vector<Variable>& inputs) {
  return recording.on && std::any_of(inputs.begin(), inputs.end(), std::mem_fn(&Variable::requires_grad));
}

Variable or_zeros(const Variable& gradient, const Tensor& output) {
  return gradient.defined() ? gradient : Variable(Tensor::zeros(output.shape(), output.dtype(), output.device()));
}

std::shared_ptr<Node> make_node(std::string_view name, const std::vector<Variable>& inputs, Node::Rule rule) {
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Variable& input : inputs) edges.emplace_back(input);
  return std::make_shared<Node>(name, std::move(edges), std::move(rule));
}

// ---- The backward pass ----

/// One backward pass. Each node stores the gradients that arrive for its outputs. A priority queue holds the nodes with
/// gradients, and the newest one runs next. All its gradients have arrived by then, because every node that uses its
/// results is newer. Gradients of leaves are added to grad() at the end of the pass, so that a pass that throws changes
/// no grad().
class Node::Pass {
 public:
  /// Whether the pass goes on when it arrives at one of `inputs`: with through_inputs it walks on to the nodes from
  /// which that input was computed, because other inputs may be among them; with up_to_inputs it stops there.
  enum class Reach { through_inputs, up_to_inputs };

  /// `inputs` are the variables whose gradients run() returns; null for backward(), which adds to grad() of all leaves.
  Pass(const BackwardOptions& options, const std::vector<Variable>* inputs, Reach reach = Reach::through_inputs)
      : options_(options), inputs_(inputs), reach_(reach) {
    if (!inputs) return;
    for (std::size_t k = 0; k < inputs->size(); ++k) {
      const Variable& input = (*inputs)[k];
      if (input.requires_grad()) wanted_[input.is_leaf() ? input.id() : input.node().get()].push_back(k);
    }
    results_.resize(inputs->size());
  }

  Gradients run(const Variable& root, const Variable& gradient) {
    require(root.defined() && root.requires_grad(), "backward: {} does not depend on anything that requires a gradient",
            root);
    Variable seed = gradient;
    if (!seed.defined()) {
      require(root.value().elements() == 1, "backward: {} is not a scalar; pass the gradient to start from", root);
      seed = Variable(Tensor::full(root.shape(), 1, root.dtype(), root.device()));
    }
    require_alike("backward", seed, "the root", root);
    GradMode mode(options_.create_graph);
    // The seed may become part of a result, which without create_graph must not keep the seed's own graph alive.
    if (!options_.create_graph && seed.requires_grad()) seed = seed.detach();
    if (inputs_ && root.node()) find_relevant(root.node().get());
    if (options_.leaf_finished && root.node()) count_leaf_uses(root.node().get());
    deliver(Edge(root), std::move(seed));
    while (!waiting_.empty()) {
      std::pop_heap(waiting_.begin(), waiting_.end(), is_older);
      current_ = std::move(waiting_.back());
      waiting_.pop_back();
      step(*current_);
      release_node(std::move(current_));
    }
    add_to_leaves();
    return std::move(results_);
  }

  /// Node::take_arrived() for an input of the node that runs.
  Variable take_arrived(const Edge& edge) {
    if (options_.create_graph || !edge.needs_gradient() || !leads_to_inputs(edge)) return {};
    Variable* arrived = arrived_at(edge);
    return arrived ? std::exchange(*arrived, Variable()) : Variable();
  }

  ~Pass() {  // after an error, clears the gradients stored in nodes
    if (current_) release_node(std::move(current_));
    for (std::shared_ptr<Node>& node : waiting_) release_node(std::move(node));
  }

 private:
  /// Calls the node's rule. The error of a kernel that failed in it names the operation.
  static Gradients apply_rule(const Node& node, const Gradients& arrived) {
    try {
      return node.rule_(arrived, node);
    } catch (const KernelFault& fault) {
      const std::string place = node.scope_.empty() ? std::string() : fmt::format(", recorded in {}", node.scope_);
      throw KernelFault(fmt::format("{}; in the backward pass of {}{}", fault.what(), node.name_, place));
    }
  }

  static bool is_older(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) {
    return a->sequence_ < b->sequence_;
  }

  /// Adds a node to the queue. Throws Error if another pass has the node in its queue.
  void let_wait(const std::shared_ptr<Node>& node) {
    Pass* other = nullptr;
    require(node->pass_.compare_exchange_strong(other, this, std::memory_order_acquire),
            "backward: another pass over the graph of '{}' has not ended; let passes over one graph follow each other",
            node->name_);
    node->pending_.assign(node->output_shapes_.size(), Variable());
    waiting_.push_back(node);
    std::push_heap(waiting_.begin(), waiting_.end(), is_older);
  }

  static void release_node(std::shared_ptr<Node> node) {
    node->pending_.clear();
    node->pass_.store(nullptr, std::memory_order_release);
    drop_reference(std::move(node));
  }

  /// Runs one node's rule.
  void step(Node& node) {
    Gradients arrived = std::move(node.pending_);
    capture(&node, arrived);
    if (inputs_ && !relevant_.contains(&node)) return;
    if (options_.observer) options_.observer(node, arrived);
    if (node.freed_) refuse_freed(node);
    Gradients gradients = apply_rule(node, arrived);
    require(gradients.size() == node.inputs_.size(), "{}: the rule returned {} gradients for {} inputs", node.name_,
            gradients.size(), node.inputs_.size());
    arrived.clear();
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      if (!gradients[k].defined() || !node.needs(k) || !leads_to_inputs(node.inputs_[k])) continue;
      if (recording.anomaly) check_finite(node.name_, node.scope_, gradients[k].value(), "gradient");
      deliver(node.inputs_[k], std::move(gradients[k]));
    }
    if (options_.leaf_finished) finish_leaves(node);
    if (!options_.retain_graph && !options_.create_graph) free(node);
  }

  [[noreturn]] static void refuse_freed(const Node& node) {
    fail("backward: the graph of '{}' was freed by an earlier pass; pass retain_graph to run it twice", node.name_);
  }

  /// Returns the root and all nodes from which it was computed, as far as the pass goes.
  std::vector<Node*> nodes_below(Node* root) const {
    std::vector<Node*> reached{root};
    std::unordered_set<const Node*> seen{root};
    for (std::size_t k = 0; k < reached.size(); ++k) {
      const bool wanted = wanted_.contains(reached[k]);
      if (reach_ == Reach::up_to_inputs && wanted && reached[k] != root) continue;
      if (reached[k]->freed_ && !wanted) refuse_freed(*reached[k]);  // its inputs_ have been cleared
      for (const Edge& edge : reached[k]->inputs_)
        if (edge.node && seen.insert(edge.node.get()).second) reached.push_back(edge.node.get());
    }
    return reached;
  }

  /// Counts for each leaf the inputs of nodes that it is: its gradient is finished when all those nodes have run.
  void count_leaf_uses(Node* root) {
    std::lock_guard lock(structure);
    for (const Node* node : nodes_below(root))
      for (const Edge& edge : node->inputs_)
        if (edge.leaf) ++leaf_uses_[edge.leaf.get()];
  }

  /// Reports the leaves that no node after this one uses.
  void finish_leaves(const Node& node) {
    for (const Edge& edge : node.inputs_) {
      if (!edge.leaf || --leaf_uses_[edge.leaf.get()] > 0) continue;
      auto found = leaf_gradients_.extract(edge.leaf);
      if (!found.empty()) finish_leaf(found.key(), std::move(found.mapped()));
    }
  }

  void finish_leaf(const std::shared_ptr<VariableState>& leaf, Variable gradient) {
    Variable variable;
    variable.state_ = leaf;
    options_.leaf_finished(variable, gradient);
  }

  /// Collects in `relevant_` the nodes on a path from the root to an input: grad() runs only their rules. Visits nodes
  /// from the oldest to the newest, so that a node's inputs are decided before the node.
  void find_relevant(Node* root) {
    std::lock_guard lock(structure);
    std::vector<Node*> reached = nodes_below(root);
    std::sort(reached.begin(), reached.end(), [](const Node* a, const Node* b) { return a->sequence_ < b->sequence_; });
    for (const Node* node : reached)
      for (const Edge& edge : node->inputs_)
        if (leads_to_inputs(edge)) {
          relevant_.insert(node);
          break;
        }
  }
  /// Whether the gradient for this edge is needed: in grad() if it contributes to the gradient of an input, in
  /// backward() always.
  bool leads_to_inputs(const Edge& edge) const {
    return !inputs_ || wanted_.contains(maker_of(edge)) || relevant_.contains(edge.node.get());
  }

  /// The node whose output an edge is, or the state of the leaf that it is; null for a constant.
  static const void* maker_of(const Edge& edge) {
    return edge.leaf ? static_cast<const void*>(edge.leaf.get()) : edge.node.get();
  }

  static void free(Node& node) {
    node.rule_ = nullptr;
    std::vector<Edge> inputs;
    {
      std::lock_guard lock(structure);
      node.freed_ = true;
      inputs.swap(node.inputs_);
    }
    for (Edge& edge : inputs) drop_reference(std::move(edge.node));
  }

  void deliver(const Edge& edge, Variable gradient) {
    if (gradient.shape() != edge.shape) gradient = sum_to(gradient, edge.shape);
    if ((edge.leaf || reach_ == Reach::up_to_inputs) && add_to_results(edge, gradient)) return;
    if (edge.node) {
      if (edge.node->pass_.load(std::memory_order_relaxed) != this) let_wait(edge.node);
      accumulate(edge.node->pending_[edge.output], std::move(gradient));
    } else if (!inputs_) {
      accumulate(leaf_gradients_[edge.leaf], std::move(gradient));
    }
  }

  /// Where the gradients for this edge are added up, if that is one place and one has arrived there; null otherwise.
  Variable* arrived_at(const Edge& edge) {
    if (edge.node)
      return edge.node->pass_.load(std::memory_order_relaxed) == this ? &edge.node->pending_[edge.output] : nullptr;
    if (inputs_) {
      const auto found = wanted_.find(edge.leaf.get());
      return found != wanted_.end() && found->second.size() == 1 ? &results_[found->second[0]] : nullptr;
    }
    const auto found = leaf_gradients_.find(edge.leaf);
    return found != leaf_gradients_.end() ? &found->second : nullptr;
  }

  /// Adds this pass's gradients of the leaves to their grad(). A leaf that is used twice, with gradients a and b, gets
  /// grad + (a + b) and not (grad + a) + b, which may round differently. So the sum over several micro-batches does not
  /// depend on how they were run.
  void add_to_leaves() {
    for (auto& [leaf, gradient] : leaf_gradients_) {
      if (options_.leaf_finished) {  // a node that uses the leaf got no gradient and did not run
        finish_leaf(leaf, std::move(gradient));
        continue;
      }
      std::lock_guard lock(leaf->grad_mutex);  // passes in several threads may share a leaf
      accumulate(leaf->grad, std::move(gradient));
    }
  }

  /// Adds a gradient to the results for the inputs that this edge is. Returns false if it is none.
  bool add_to_results(const Edge& edge, const Variable& gradient) {
    const auto found = wanted_.find(maker_of(edge));
    if (found == wanted_.end()) return false;
    bool is_wanted = false;
    for (std::size_t k : found->second) {
      if ((*inputs_)[k].output_index() != edge.output) continue;
      accumulate(results_[k], gradient);
      is_wanted = true;
    }
    return is_wanted;
  }

  void capture(Node* node, const Gradients& arrived) {
    if (reach_ == Reach::up_to_inputs) return;
    const auto found = wanted_.find(node);
    if (found == wanted_.end()) return;
    for (std::size_t k : found->second) results_[k] = arrived[(*inputs_)[k].output_index()];
  }

  void accumulate(Variable& total, Variable gradient) {
    if (!total.defined()) {
      total = std::move(gradient);
    } else if (total.dtype() == DType::bf16) {  // arithmetic is done in f32
      total = cast(cast(total, DType::f32) + cast(gradient, DType::f32), DType::bf16);
    } else if (options_.create_graph || !total.is_sole_owner() || !total.value().is_dense()) {
      total = total + gradient;
    } else {  // no other handle refers to the buffer: add in place
      map_into(total.value(), Add{}, total.value(), gradient.value());
    }
  }

  BackwardOptions options_;
  const std::vector<Variable>* inputs_;
  std::unordered_map<const void*, std::vector<std::size_t>> wanted_;  ///< numbers of inputs, by their maker_of()
  std::unordered_set<const Node*> relevant_;
  std::unordered_map<std::shared_ptr<VariableState>, Variable> leaf_gradients_;  ///< to be added to grad() at the end
  std::unordered_map<const VariableState*, int> leaf_uses_;  ///< by nodes that have not run; for leaf_finished
  Reach reach_;
  Gradients results_;
  std::vector<std::shared_ptr<Node>> waiting_;  // the queue: a heap with the newest node in front
  std::shared_ptr<Node> current_;               // the node whose rule is running
};

Variable Node::take_arrived(std::size_t input) const {
  Pass* pass = pass_.load(std::memory_order_relaxed);
  return pass ? pass->take_arrived(inputs_[input]) : Variable();
}

void backward(const Variable& root, const Variable& gradient, const BackwardOptions& options) {
  Node::Pass(options, nullptr).run(root, gradient);
}

Gradients grad(const Variable& root, const std::vector<Variable>& inputs, const Variable& gradient,
               const BackwardOptions& options) {
  for (std::size_t k = 0; k < inputs.size(); ++k)
    require(inputs[k].requires_grad(), "grad: input {} ({}) does not require a gradient", k, inputs[k]);
  Gradients results = Node::Pass(options, &inputs).run(root, gradient);
  for (std::size_t k = 0; k < results.size(); ++k)
    if (!results[k].defined())
      results[k] = Variable(Tensor::zeros(inputs[k].shape(), inputs[k].dtype(), inputs[k].device()));
  return results;
}

Gradients partial_gradients(const Variable& output, const std::vector<Variable>& inputs, const Variable& gradient,
                            const BackwardOptions& options) {
  Gradients results = Node::Pass(options, &inputs, Node::Pass::Reach::up_to_inputs).run(output, gradient);
  // If a variable occurs twice in `inputs`, both results are its whole gradient. The caller will add them, so only the
  // first one is kept.
  for (std::size_t k = 0; k < inputs.size(); ++k)
    for (std::size_t earlier = 0; earlier < k; ++earlier)
      if (inputs[k].is_same(inputs[earlier])) results[k] = Variable();
  return results;
}

}  // namespace fovea
