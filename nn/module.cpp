#include "nn/module.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "nn/shapes_only.h"

namespace fovea {

namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + '.' + name;
}

/// Hashes seed and name: FNV-1a with the seed in the offset basis, then SplitMix64's finaliser to mix all 64 bits.
std::uint64_t seed_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

thread_local bool shapes_only = false;

}  // namespace

void Module::check_name(std::string_view name) const {
  require(!name.empty() && name.find('.') == name.npos,
          "'{}' cannot name a parameter or module: names are not empty and have no dot", name);
  bool taken = std::any_of(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.name == name; }) ||
               std::any_of(children_.begin(), children_.end(), [&](const Module* m) { return m->name_ == name; });
  require(!taken, "module '{}' already has a parameter or module named '{}'", name_, name);
}

ShapesOnly::ShapesOnly() : before_(std::exchange(shapes_only, true)) {}
ShapesOnly::~ShapesOnly() { shapes_only = before_; }

double rate_of_reading(std::int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); }

Variable Module::parameter(std::string_view name, const Shape& shape, Initializer initializer, double rate) {
  check_name(name);
  // NaN, so that the first output of a model that was never initialised is NaN.
  constexpr double unset = std::numeric_limits<double>::quiet_NaN();
  Tensor values = shapes_only ? Tensor::full({1}, unset).expand(shape) : Tensor::full(shape, unset);
  Variable variable(values, true);
  parameters_.push_back({std::string(name), variable, std::move(initializer), rate});
  return variable;
}

void Module::child(std::string_view name, Module& module) {
  check_name(name);
  require(module.name_.empty(), "module '{}' is already part of another module, as '{}'", name, module.name_);
  module.name_ = name;
  children_.push_back(&module);
}

void Module::collect(const std::string& prefix, std::vector<NamedParameter>& out) const {
  for (const NamedParameter& p : parameters_) out.emplace_back(p).name = joined(prefix, p.name);
  for (const Module* part : children_) part->collect(joined(prefix, part->name_), out);
}

std::vector<NamedParameter> Module::parameters() const {
  std::vector<NamedParameter> out;
  collect("", out);
  return out;
}

std::int64_t Module::parameter_count() const { return module_counts().front().parameters; }

void Module::count(const std::string& prefix, std::vector<ModuleCount>& out) const {
  std::size_t own = out.size();
  out.push_back({prefix, 0});
  for (const NamedParameter& p : parameters_) out[own].parameters += p.variable.shape().elements();
  for (const Module* part : children_) {
    std::size_t at = out.size();
    part->count(joined(prefix, part->name_), out);
    out[own].parameters += out[at].parameters;
    if (out[at].parameters == 0) out.resize(at);
  }
}

std::vector<ModuleCount> Module::module_counts() const {
  std::vector<ModuleCount> out;
  count("", out);
  return out;
}

std::string Module::describe() const {
  std::vector<NamedParameter> all = parameters();
  std::size_t names = 5, shapes = 5, rules = 0;
  for (const NamedParameter& p : all) {
    names = std::max(names, p.name.size());
    shapes = std::max(shapes, p.variable.shape().str().size());
    rules = std::max(rules, p.initializer.description.size());
  }
  std::string text;
  auto line = [&](const std::string& name, const std::string& shape, const std::string& rule, std::int64_t number) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>11}\n", name, names, shape, shapes, rule, rules, number);
  };
  for (const NamedParameter& p : all)
    line(p.name, p.variable.shape().str(), p.initializer.description, p.variable.shape().elements());
  line("total", "", "", parameter_count());
  return text;
}

template <class Change>
void Module::change_values(const Change& change) {
  for (NamedParameter& p : parameters()) {
    change(p);
    p.variable.clear_grad();
  }
}

void Module::store_side_by_side(const std::vector<Variable>& parameters) {
  std::vector<Variable> defined;
  for (const Variable& parameter : parameters)
    if (parameter.defined()) defined.push_back(parameter);
  if (defined.size() > 1) side_by_side_.push_back(std::move(defined));
}

/// Moves the parameters of each list into one tensor of their device. A matrix lies there by columns, so that its
/// elements are neighbours, as those of a parameter that lies alone. Parameters on the CPU are not moved: few rows at a
/// time are multiplied faster by matrices that lie by rows.
void Module::place_side_by_side() const {
  for (const std::vector<Variable>& list : side_by_side_) {
    const Tensor first = list[0].value();
    if (first.device() == Device::cpu) continue;
    Shape shape = first.shape();
    shape[-1] = 0;
    for (const Variable& parameter : list) shape[-1] += parameter.size(-1);
    if (shape.rank() == 2) std::swap(shape[0], shape[1]);
    Tensor all = Tensor::empty(shape, first.dtype(), first.device());
    if (shape.rank() == 2) all = all.transpose(0, 1);
    std::int64_t begin = 0;
    for (Variable parameter : list) {
      const Tensor part = all.slice(-1, begin, begin + parameter.size(-1));
      Tensor(part).copy_from(parameter.value());
      begin += parameter.size(-1);
      parameter.value() = part;
    }
  }
  for (const Module* part : children_) part->place_side_by_side();
}

void Module::initialise(std::uint64_t seed) {
  change_values([seed](NamedParameter& p) {
    require(p.variable.value().is_dense(), "'{}' has no memory for values, because it was constructed under ShapesOnly",
            p.name);
    Generator generator(seed_of(seed, p.name));
    Tensor values = Tensor::empty(p.variable.shape(), DType::f64, p.variable.device());
    p.initializer.fill(values, generator);
    p.variable.value().copy_from(values);
    p.variable.named(p.name);
  });
}

void Module::train(bool training) {
  training_ = training;
  for (Module* part : children_) part->train(training);
}

void Evaluating::switch_off(Module& module) {
  if (std::exchange(module.training_, false)) trained_.push_back(&module);
  for (Module* part : module.children_) switch_off(*part);
}

Evaluating::~Evaluating() {
  for (Module* module : trained_) module->training_ = true;
}

void Module::to(DType dtype) {
  require(dtype == DType::f32 || dtype == DType::f64, "parameters are f32 or f64, not {}", fovea::name(dtype));
  change_values([dtype](NamedParameter& p) { p.variable.value() = p.variable.value().to(dtype); });
  place_side_by_side();
}

Device Module::device() const {
  const std::vector<NamedParameter> all = parameters();
  return all.empty() ? Device::cpu : all.front().variable.device();
}

void Module::to(Device device) {
  change_values([device](NamedParameter& p) { p.variable.value() = p.variable.value().to(device); });
  place_side_by_side();
}

}  // namespace fovea
