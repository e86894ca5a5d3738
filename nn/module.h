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
};

/// The number of parameters of one part, with those of the parts inside it.
struct ModuleCount {
  std::string name;  ///< such as "encoder.0.attention"; "" for the whole model
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

  /// The parameters of this module, then those of its parts, in the order of their registration.
  std::vector<NamedParameter> parameters() const;
  std::int64_t parameter_count() const;
  /// The counts of this module and of every part of it that has parameters, parents first.
  std::vector<ModuleCount> module_counts() const;
  /// A table with one line per parameter (name, shape, initial values, number of elements) and a line for the total.
  std::string describe() const;

  /// Sets every parameter to its initial values; before, they are NaN. The values depend on the seed, the parameter's
  /// full name, its shape and its initializer only: parameters of the same name start alike in two models that differ
  /// elsewhere. Clears gradients. Throws Error for parameters without memory (ShapesOnly).
  void initialise(std::uint64_t seed);

  /// Switches this module and its parts to training or evaluation. Dropout acts in training only. New modules are in
  /// training.
  void train(bool training = true);
  bool training() const { return training_; }

  /// Casts the parameters to f32 or f64 and clears their gradients. Throws Error for other types.
  void to(DType dtype);
  /// Moves the parameters to a device and clears their gradients.
  void to(Device device);

  /// The name under which the parent registered this module; "" without a parent.
  const std::string& name() const { return name_; }

 protected:
  Module() = default;

  /// Creates and registers a parameter, an f32 leaf that requires a gradient. Throws Error for a name that is empty,
  /// contains a dot or is taken.
  Variable parameter(std::string_view name, const Shape& shape, Initializer initializer);
  /// Registers a part, which must be a member of this module. Throws Error for a bad name, as parameter() does, and for
  /// a part that is registered already.
  void child(std::string_view name, Module& module);

  /// Puts this module's name before those of the operations recorded in a C++ scope. forward() begins with
  /// `Scope scope = enter();`.
  Scope enter() const { return Scope(name_); }

 private:
  void check_name(std::string_view name) const;
  void collect(const std::string& prefix, std::vector<NamedParameter>& out) const;
  void count(const std::string& prefix, std::vector<ModuleCount>& out) const;
  template <class Change>
  void change_values(const Change& change);

  std::string name_;
  std::vector<NamedParameter> parameters_;  ///< of this module alone, with names inside it
  std::vector<Module*> children_;
  bool training_ = true;
};

/// Switches a module to evaluation for the lifetime of this object.
class Evaluating {
 public:
  explicit Evaluating(Module& module) : module_(module), before_(module.training()) { module.train(false); }
  ~Evaluating() { module_.train(before_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  Module& module_;
  bool before_;
};

}  // namespace fovea
