// The part of the Python package that calls fovea. Arrays of NumPy and PyTorch on the CPU come and go through DLPack,
// the inputs and the parameters without a copy; Python's lock is released while fovea computes. fovea/__init__.py and
// fovea/torch.py are what a user sees.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "attention/language/formula_text.h"
#include "attention/method_library.h"
#include "attention/registry.h"
#include "autograd/operations.h"
#include "tensor/random.h"

namespace nb = nanobind;
using namespace fovea;

namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;  // fovea only reads it
using Result = nb::ndarray<nb::array_api, nb::device::cpu>;

std::string name_of(nb::dlpack::dtype type) {
  const std::map<std::uint8_t, const char*> kinds = {
      {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int), "int"},
      {static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt), "uint"},
      {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), "float"},
      {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), "bfloat"},
      {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex), "complex"},
      {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool), "bool"}};
  const auto kind = kinds.find(type.code);
  if (kind == kinds.end()) return "a type without a name";
  return type == nb::dtype<bool>() ? "bool" : kind->second + std::to_string(type.bits);
}

constexpr const char* real_types = "float32, float64 or bfloat16";

/// The element type of the array `name`: f32, f64, bf16, i32, i64, u8 or bool. `expected` is for the message.
DType dtype_of_array(const std::string& name, const Array& array, const char* expected) {
  const std::pair<nb::dlpack::dtype, DType> types[] = {
      {nb::dtype<float>(), DType::f32},
      {nb::dtype<double>(), DType::f64},
      {{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1}, DType::bf16},
      {nb::dtype<std::int32_t>(), DType::i32},
      {nb::dtype<std::int64_t>(), DType::i64},
      {nb::dtype<std::uint8_t>(), DType::u8},
      {nb::dtype<bool>(), DType::boolean}};
  for (const auto& [theirs, ours] : types)
    if (array.dtype() == theirs) return ours;
  fail("{} is {}; expected {}", name, name_of(array.dtype()), expected);
}

/// The type in which numbers of a type are computed: bf16 in f32.
DType type_of_computation(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

nb::dlpack::dtype dtype_for_python(DType dtype) {
  if (dtype == DType::f32) return nb::dtype<float>();
  if (dtype == DType::f64) return nb::dtype<double>();
  return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
}

/// A tensor over the memory of the array `name`, which it keeps alive.
Tensor tensor_over(const std::string& name, const Array& array, const char* expected) {
  const DType dtype = dtype_of_array(name, array, expected);
  Shape shape, strides;
  for (std::size_t k = 0; k < array.ndim(); ++k) {
    shape.push_back(static_cast<std::int64_t>(array.shape(k)));
    strides.push_back(array.stride(k));
    require(strides[static_cast<int>(k)] >= 0, "{} has a negative stride; pass a copy of it", name);
  }
  auto owner = std::shared_ptr<const void>(new Array(array), [](const void* held) {
    nb::gil_scoped_acquire lock;
    delete static_cast<const Array*>(held);
  });
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(array.data()));
  return Tensor::borrowed(data, shape, strides, dtype, owner);
}

/// An array of the elements of a tensor, converted to `as`. It shares no memory with a tensor that another handle has,
/// such as the tape: Python may change the array in place.
Result array_of(Tensor x, DType as) {
  x = x.to(as).contiguous();
  if (!x.is_sole_owner()) x = x.clone();
  std::vector<std::size_t> shape;
  for (int k = 0; k < x.rank(); ++k) shape.push_back(static_cast<std::size_t>(x.size(k)));
  auto* kept = new Tensor(std::move(x));
  nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  return Result(kept->mutable_address(), shape.size(), shape.data(), owner, nullptr, dtype_for_python(as));
}

using Arrays = std::map<std::string, Array>;

/// Throws Error if an array has a name that is not in `known`. `kind`: "input" or "parameter".
void require_known(const char* kind, const Arrays& arrays, const std::vector<std::string>& known) {
  for (const auto& [name, array] : arrays) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail("the attention has no {} '{}'; expected one of: {}", kind, name, known.empty() ? "(none)" : listed(known));
  }
}

/// One call of an attention: its results, and its tape for the backward pass. A call has a module of its own, so that
/// calls in several threads, and calls that overlap in time, have nothing in common.
class Call {
 public:
  /// `seed` is that of dropout, and of the parameters that are not given; `complete`: all of them must be given.
  /// `gradients`: the tape is kept. `traced`: weights and quantities are kept, in O(I J) memory.
  Call(std::unique_ptr<Attention> attention, const Arrays& arrays, const Arrays& parameters, bool causal, bool train,
       bool gradients, bool traced, bool complete, std::uint64_t seed)
      : attention_(std::move(attention)) {
    nb::gil_scoped_release unlocked;
    read(arrays);
    set_parameters(parameters, complete, seed);
    input_.causal = causal;
    if (causal) input_.query_offset = input_.key.size(1) - input_.query.size(1);
    require(input_.query_offset >= 0, "causal: found {} queries and {} keys; expected no more queries than keys",
            input_.query.size(1), input_.key.size(1));
    if (traced) input_.trace = &trace_;
    attention_->train(train);
    GradMode recorded(gradients);
    RandomScope random({.seed = seed});
    output_ = attention_->forward(input_);
  }

  Result output() const { return array_of(output_.value(), dtype_); }
  /// The address of the first element that the call reads of an array or parameter, so that tests see copies.
  std::uintptr_t address(const std::string& name) const {
    for (const auto& [known, leaf] : leaves_)
      if (known == name) return reinterpret_cast<std::uintptr_t>(leaf.value().address());
    fail("the call reads no array '{}'", name);
  }
  /// Nothing for an attention that has no matrix of weights.
  std::optional<Result> weights() const {
    if (!trace_.weights.defined()) return std::nullopt;
    return array_of(trace_.weights.value(), dtype_);
  }
  std::map<std::string, Result> quantities() const {
    std::map<std::string, Result> found;
    for (const TracedQuantity& quantity : trace_.quantities) {
      std::string name = quantity.name;  // two methods, each on some of the heads, may both have a "center"
      for (int use = 2; found.count(name) > 0; ++use) name = fmt::format("{}_{}", quantity.name, use);
      found.emplace(name, array_of(quantity.value.value(), dtype_));
    }
    return found;
  }

  /// The gradients of the sum of output * cotangent, by the names of the arrays and parameters.
  std::map<std::string, Result> gradients(const Array& cotangent) const {
    Tensor given;  // kept until the results are made, so that a gradient that is the cotangent itself is copied
    Gradients found;
    {
      nb::gil_scoped_release unlocked;
      given = cotangent_of(cotangent);
      found = grad(output_, leaves(), Variable(given), {.retain_graph = true});
    }
    return named(std::move(found));
  }

  /// The gradients of the sum of gradient * weight over the results of gradients() that have a weight. The gradient of
  /// the cotangent has the name "".
  std::map<std::string, Result> second_gradients(const Array& cotangent, const Arrays& weights) const {
    Gradients found;
    {
      nb::gil_scoped_release unlocked;
      std::vector<Variable> inputs = leaves();
      const Variable given(cotangent_of(cotangent), true);
      const Gradients first = grad(output_, inputs, given, {.create_graph = true});
      Variable total = sum(given * Tensor::zeros({1}, given.dtype()));
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (const auto weight = weights.find(leaves_[k].first); weight != weights.end())
          total =
              total + sum(first[k] * tensor_over_locked("a weight", weight->second, real_types).to(output_.dtype()));
      inputs.push_back(given);
      found = grad(total, inputs, {}, {.retain_graph = true});
    }
    return named(std::move(found));
  }

 private:
  static Tensor tensor_over_locked(const std::string& name, const Array& array, const char* expected) {
    nb::gil_scoped_acquire lock;
    return tensor_over(name, array, expected);
  }

  Tensor cotangent_of(const Array& array) const {
    return tensor_over_locked("the gradient of the output", array, real_types).to(output_.dtype());
  }
  std::vector<Variable> leaves() const {
    std::vector<Variable> all;
    for (const auto& [name, leaf] : leaves_) all.push_back(leaf);
    return all;
  }
  /// The gradients of the leaves by name. One more has the name "", and the type of the output.
  std::map<std::string, Result> named(Gradients gradients) const {
    std::map<std::string, Result> found;
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      Tensor value = gradients[k].value();
      gradients[k] = {};
      found.emplace(k < leaves_.size() ? leaves_[k].first : "",
                    array_of(std::move(value), k < leaves_.size() ? dtypes_[k] : dtype_));
    }
    return found;
  }

  /// The array as a tensor that can be differentiated, of the query's type of computation.
  Tensor real_tensor(const std::string& name, const Array& array) const {
    const Tensor x = tensor_over_locked(name, array, real_types);
    require(is_float(x.dtype()), "{} is {}; expected {}", name, name_of(array.dtype()), real_types);
    if (!dtypes_.empty())
      require(type_of_computation(x.dtype()) == type_of_computation(dtypes_.front()), "{} is {}; expected {}, as query",
              name, name_of(array.dtype()), dtypes_.front() == DType::f64 ? "float64" : "float32 or bfloat16");
    return x;
  }

  /// The array as a leaf. bf16 is computed in f32, and its gradient is bf16 again.
  Variable leaf(const std::string& name, const Array& array) {
    const Tensor x = real_tensor(name, array);
    dtypes_.push_back(x.dtype());
    leaves_.emplace_back(name, Variable(x.to(type_of_computation(x.dtype())), true));
    return leaves_.back().second;
  }

  void read(const Arrays& arrays) {
    constexpr std::pair<const char*, Variable AttentionInput::*> differentiable[] = {
        {"query", &AttentionInput::query},
        {"key", &AttentionInput::key},
        {"value", &AttentionInput::value},
        {"mask", &AttentionInput::mask},
        {"left_pointer", &AttentionInput::left_pointer},
        {"right_pointer", &AttentionInput::right_pointer},
        {"step_input", &AttentionInput::step_input},
        {"previous_focus", &AttentionInput::previous_focus}};
    struct WholeNumbers {
      const char* name;
      Tensor AttentionInput::*member;
      const char* types;
    };
    constexpr WholeNumbers whole_numbers[] = {{"lengths", &AttentionInput::key_lengths, "int32 or int64"},
                                              {"documents", &AttentionInput::documents, "int32 or int64"},
                                              {"allowed", &AttentionInput::allowed, "bool or uint8"},
                                              {"grid", &AttentionInput::grid, "int32 or int64"}};
    std::vector<std::string> known;
    for (const auto& [name, member] : differentiable) {
      known.emplace_back(name);
      if (const auto found = arrays.find(name); found != arrays.end()) input_.*member = leaf(name, found->second);
    }
    for (const auto& [name, member, types] : whole_numbers) {
      known.emplace_back(name);
      const auto found = arrays.find(name);
      if (found == arrays.end()) continue;
      const Tensor x = tensor_over_locked(name, found->second, types);
      const bool is_integer = x.dtype() == DType::i32 || x.dtype() == DType::i64,
                 is_mask = !is_float(x.dtype()) && !is_integer;
      require(member == &AttentionInput::allowed ? is_mask : is_integer, "{} is {}; expected {}", name,
              name_of(found->second.dtype()), types);
      input_.*member = x;
    }
    require_known("input", arrays, known);
    require(input_.query.defined(), "query: found None; expected an array [B, I, d]");
    dtype_ = dtypes_.front();
    if (!input_.key.defined()) input_.key = input_.query;
    if (!input_.value.defined()) input_.value = input_.key;
  }

  /// Puts the parameters of Python in the place of the module's own, and keeps them as leaves.
  void set_parameters(const Arrays& parameters, bool complete, std::uint64_t seed) {
    std::vector<NamedParameter> own = attention_->parameters();
    attention_->to(type_of_computation(dtype_));
    if (parameters.size() < own.size()) attention_->initialise(seed);
    std::vector<std::string> known;
    for (const NamedParameter& parameter : own) known.push_back(parameter.name);
    require_known("parameter", parameters, known);
    for (NamedParameter& parameter : own) {
      const auto found = parameters.find(parameter.name);
      const Shape expected = parameter.variable.shape();
      require(found != parameters.end() || !complete, "the parameter '{}' {} is missing", parameter.name, expected);
      if (found == parameters.end()) continue;
      const Tensor x = real_tensor(parameter.name, found->second);
      // the engine checks the shape of a capture, which may have a number for each sentence, query and key
      require(x.shape() == expected || is_formula_capture(parameter.name), "the parameter '{}' is {}; expected {}",
              parameter.name, x.describe(), expected);
      dtypes_.push_back(x.dtype());
      parameter.variable.value() = x.to(type_of_computation(x.dtype()));
      leaves_.emplace_back(parameter.name, parameter.variable);
    }
  }

  std::unique_ptr<Attention> attention_;
  AttentionInput input_;
  AttentionTrace trace_;
  Variable output_;
  DType dtype_ = DType::f32;                              ///< of the query
  std::vector<std::pair<std::string, Variable>> leaves_;  ///< arrays, then parameters
  std::vector<DType> dtypes_;                             ///< of each leaf in Python
};

Place place_of(const std::string& name) {
  for (const auto& [known, place] :
       {std::pair("encoder", Place::encoder), std::pair("decoder", Place::decoder), std::pair("cross", Place::cross)})
    if (name == known) return place;
  fail("place '{}': expected encoder, decoder or cross", name);
}

std::vector<std::pair<std::string, Result>> initial_parameters(Attention& attention, std::uint64_t seed) {
  attention.initialise(seed);
  std::vector<std::pair<std::string, Result>> found;
  for (const NamedParameter& parameter : attention.parameters())
    found.emplace_back(parameter.name, array_of(Variable(parameter.variable).value(), DType::f32));
  return found;
}

/// Text of the catalogue: card and options of a method.
nb::dict description(const MethodEntry& entry) {
  nb::dict found;
  found["name"] = entry.card.name;
  found["summary"] = entry.card.summary;
  found["reference"] = entry.card.reference;
  found["formula"] = entry.card.formula;
  nb::list options;
  for (const OptionDescription& option : describe_options(entry)) {
    nb::dict one;
    one["name"] = option.name, one["values"] = option.values;
    one["default"] = option.default_value, one["meaning"] = option.meaning;
    options.append(one);
  }
  found["options"] = options;
  return found;
}

}  // namespace

NB_MODULE(_fovea, module) {
  nb::set_leak_warnings(false);  // a graph that the program still holds when it ends keeps its calls
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
  });
  nb::class_<AttentionShape>(module, "Shape")
      .def(
          "__init__",
          [](AttentionShape* self, std::int64_t model_dim, int heads, std::int64_t head_dim, int layer, int layers,
             const std::string& place, double dropout, std::int64_t key_dim, std::int64_t value_dim,
             std::int64_t step_dim) {
            new (self) AttentionShape{.model_dim = model_dim,
                                      .heads = heads,
                                      .head_dim = head_dim,
                                      .layer = layer,
                                      .layers = layers,
                                      .place = place_of(place),
                                      .dropout = dropout,
                                      .query_dim = model_dim,
                                      .key_dim = key_dim,
                                      .value_dim = value_dim,
                                      .step_dim = step_dim};
          },
          nb::kw_only(), nb::arg("model_dim"), nb::arg("heads"), nb::arg("head_dim"), nb::arg("layer"),
          nb::arg("layers"), nb::arg("place"), nb::arg("dropout"), nb::arg("key_dim"), nb::arg("value_dim"),
          nb::arg("step_dim"));
  nb::class_<Call>(module, "Call")
      .def("__init__",
           [](Call* self, const std::string& specification, const AttentionShape& shape, const Arrays& arrays,
              const Arrays& parameters, bool causal, bool train, bool gradients, bool traced, bool complete,
              std::uint64_t seed) {
             new (self) Call(attention_factory(specification)(shape), arrays, parameters, causal, train, gradients,
                             traced, complete, seed);
           })
      .def("address", &Call::address)
      .def("output", &Call::output)
      .def("weights", &Call::weights)
      .def("quantities", &Call::quantities)
      .def("gradients", &Call::gradients)
      .def("second_gradients", &Call::second_gradients);
  module.def("check", [](const std::string& specification) { attention_factory(specification); });
  module.def("parameters", [](const std::string& specification, const AttentionShape& shape, std::uint64_t seed) {
    return initial_parameters(*attention_factory(specification)(shape), seed);
  });
  module.def("methods", [] {
    std::vector<std::string> names;
    for (const MethodEntry& entry : registered_methods()) names.emplace_back(entry.card.name);
    return names;
  });
  module.def("describe", [](const std::string& name) {
    const MethodEntry* entry = find_method(name);
    require(entry, "there is no method '{}'", name);
    return description(*entry);
  });
  module.def("load_methods", [](const std::string& library) { load_methods(library); });
}
