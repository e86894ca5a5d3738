/// What models are built of: parameters and parts, each registered under a name.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "nn/initializer.h"

namespace fovea {

/// A parameter, under its full name: "encoder.0.attention.query.weight".
struct NamedParameter {
  std::string name;
  Variable variable;
  Initializer initializer;
};

/// The number of parameters of one part and of everything in it.
struct ModuleCount {
  std::string name;  ///< "encoder.0.attention"; "" for the whole
  std::int64_t parameters = 0;
};

/// Base of everything with parameters. A module's parameters and parts are plain C++ members, which it registers by
/// name when it is constructed:
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
/// Modules stay where they were made, because their parents point to them: neither copied nor moved.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The parameters of this module, then those of its parts, each in the order of registration.
  std::vector<NamedParameter> parameters() const;
  std::int64_t parameter_count() const;
  /// This module and every part of it that has parameters, parents first.
  std::vector<ModuleCount> module_counts() const;
  /// One line per parameter: name, shape, initial values, number; and the total. For --describe.
  std::string describe() const;

  /// Gives every parameter its first values (they are NaN before). What a parameter gets depends on the seed and on its
  /// full name, and on nothing else: models that share names start alike, whatever else they contain.
  void initialise(std::uint64_t seed);

  /// Dropout is active in training. New modules are in training.
  void train(bool training = true);
  bool training() const { return training_; }

  /// Casts the parameters, f32 or f64. Their gradients are dropped.
  void to(DType dtype);
  void to(Device device);

  /// The name under which its parent registered this module; "" for a root.
  const std::string& name() const { return name_; }

 protected:
  Module() = default;

  /// Registers a parameter: an f32 leaf that requires a gradient. Throws Error for a name that is empty, has a dot or
  /// is taken; likewise child().
  Variable parameter(std::string_view name, const Shape& shape, Initializer initializer);
  /// Registers a part, a member of this module.
  void child(std::string_view name, Module& module);

  /// Names what follows on the tape after this module: `Scope scope = enter();` opens forward().
  Scope enter() const { return Scope(name_); }

 private:
  void check_name(std::string_view name) const;
  void collect(const std::string& prefix, std::vector<NamedParameter>& out) const;
  void count(const std::string& prefix, std::vector<ModuleCount>& out) const;
  template <class Change>
  void change_values(const Change& change);

  std::string name_;
  std::vector<NamedParameter> parameters_;  ///< under their own names
  std::vector<Module*> children_;
  bool training_ = true;
};

/// A module is not in training while one of these lives, and then what it was before.
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
