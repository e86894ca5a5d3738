/// The base class of models and layers: parameters and parts, each registered under a name.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "nn/initializer.h"

namespace fovea {

/// A parameter with its full name, such as "encoder.0.attention.query.weight".
struct NamedParameter {
  std::string name;
  Variable variable;
  Initializer initializer;
  /// A factor of the learning rate. Adam moves every weight by about the rate in each update, however small its
  /// gradient, so that a number read from n inputs moves by up to n times the rate. If a sigmoid or a softmax over
  /// positions follows, it is saturated within ten updates and learns no more. With the factor 1 / sqrt(n) it moves as
  /// a logit q · k / sqrt(n) does.
  double rate = 1;
};

/// NamedParameter::rate of weights that read n numbers for each output: 1 / sqrt(n).
double rate_of_reading(std::int64_t n);

/// The number of parameters of one module, including the parameters of the parts inside it.
struct ModuleCount {
  std::string name;  ///< full name of the module, such as "encoder.0.attention"; "" for the whole model
  std::int64_t parameters = 0;
};

/// Base class of everything with parameters. A module's parameters and parts are plain C++ members, which its
/// constructor registers by name:
///
///   class Linear : public Module {
///    public:
///     Linear(std::int64_t in, std::int64_t out)
///         : weight_(parameter("weight", {in, out}, Initializer::xavier_uniform())) {}
///     Variable forward(const Variable& x) const { return linear(x, weight_); }
///    private:
///     Variable weight_;
///   };
///
/// Modules can be neither copied nor moved, because their parents hold pointers to them. Several threads may run
/// forward() of one module at once, as long as none of them changes the module. In training with dropout each thread
/// needs a RandomScope (tensor/random.h) of its own.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Returns the module's own parameters, then the parameters of its parts, in the order of registration.
  std::vector<NamedParameter> parameters() const;
  std::int64_t parameter_count() const;
  /// Returns the parameter counts of this module and of every module inside it that has parameters. A module comes
  /// before the modules inside it.
  std::vector<ModuleCount> module_counts() const;
  /// Returns a table: one line per parameter (name, shape, initial values, number of elements), then the total.
  std::string describe() const;

  /// Sets every parameter to its initial values. Before the first call, all parameters are NaN. The values depend only
  /// on the seed and on the parameter's full name, shape and initializer, so that a parameter has the same initial
  /// values in two models that differ elsewhere. Clears gradients. Throws Error for parameters that were constructed
  /// under ShapesOnly, because they have no memory for values.
  void initialise(std::uint64_t seed);

  /// Switches this module and its parts to training mode, or to evaluation mode if `training` is false. Dropout acts in
  /// training mode only. New modules are in training mode.
  void train(bool training = true);
  bool training() const { return training_; }

  /// Casts the parameters to f32 or f64 and clears their gradients. Throws Error for other types.
  void to(DType dtype);
  /// Moves the parameters to a device and clears their gradients.
  void to(Device device);
  /// The device of the first parameter; the CPU for a module without parameters.
  Device device() const;

  /// The name under which the parent registered this module; "" if it has no parent.
  const std::string& name() const { return name_; }

 protected:
  Module() = default;

  /// Creates and registers a parameter, an f32 leaf that requires a gradient. Throws Error for a name that is empty,
  /// contains a dot or is taken. `rate` is NamedParameter::rate.
  Variable parameter(std::string_view name, const Shape& shape, Initializer initializer, double rate = 1);
  /// Registers `module` as a part of this module, which must own it as a member. Throws Error for a name that
  /// parameter() would refuse, and for a module that is already registered as a part.
  void child(std::string_view name, Module& module);

  /// Declares that these matrices [in, n_k], or vectors [n_k], are parameters of layers that read one input, in this
  /// order. On a GPU they are stored as the columns of one tensor, of which each is a view, so that forward_together()
  /// needs one product for all of them. Each is still a parameter of its own. Empty variables are left out.
  void store_side_by_side(const std::vector<Variable>& parameters);

  /// Returns an object that marks the operations recorded during its lifetime with this module's name. forward() begins
  /// with `Scope scope = enter();`.
  Scope enter() const { return Scope(name_); }

 private:
  void check_name(std::string_view name) const;
  void collect(const std::string& prefix, std::vector<NamedParameter>& out) const;
  void count(const std::string& prefix, std::vector<ModuleCount>& out) const;
  friend class Evaluating;
  template <class Change>
  void change_values(const Change& change);
  void place_side_by_side() const;

  std::string name_;
  std::vector<NamedParameter> parameters_;  ///< the parameters of this module without its parts; names have no prefix
  std::vector<Module*> children_;
  std::vector<std::vector<Variable>> side_by_side_;  ///< the lists of store_side_by_side()
  bool training_ = true;
};

/// Switches a module and its parts to evaluation mode for the lifetime of this object. Those that were in training mode
/// return to it; the others, such as frozen parts, do not.
class Evaluating {
 public:
  explicit Evaluating(Module& module) { switch_off(module); }
  ~Evaluating();
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  void switch_off(Module& module);

  std::vector<Module*> trained_;  ///< the modules that were in training mode
};

}  // namespace fovea
