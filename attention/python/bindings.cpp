// The part of the Python package that calls fovea. Arrays of NumPy and PyTorch on the CPU come and go through DLPack,
// without a copy of their elements; Python's lock is released while fovea computes. fovea/__init__.py and
// fovea/torch.py are what a user sees.
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

#include "attention/method_library.h"
#include "attention/registry.h"
#include "autograd/operations.h"
#include "tensor/random.h"

namespace nb = nanobind;
using namespace fovea;

namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;  // it is not written
using Result = nb::ndarray<nb::array_api, nb::device::cpu>;

/// fovea has f32, f64, bf16, i32, i64, u8 and bool.
DType dtype_of_array(const Array& array) {
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
  fail(
      "an array has elements of a type that fovea does not have; there are float32, float64, bfloat16, int32, int64, "
      "uint8 and bool");
}

/// The type in which numbers of a type are computed: bf16 in f32.
DType type_of_computation(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

nb::dlpack::dtype dtype_for_python(DType dtype) {
  if (dtype == DType::f32) return nb::dtype<float>();
  if (dtype == DType::f64) return nb::dtype<double>();
  return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
}

/// A tensor over the memory of an array, which it keeps alive.
Tensor tensor_over(const Array& array) {
  Shape shape, strides;
  for (std::size_t k = 0; k < array.ndim(); ++k) {
    shape.push_back(static_cast<std::int64_t>(array.shape(k)));
    strides.push_back(array.stride(k));
    require(strides[static_cast<int>(k)] >= 0, "an array has a negative stride; pass a copy of it");
  }
  auto owner = std::shared_ptr<const void>(new Array(array), [](const void* held) {
    nb::gil_scoped_acquire lock;
    delete static_cast<const Array*>(held);
  });
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(array.data()));
  return Tensor::borrowed(data, shape, strides, dtype_of_array(array), owner);
}

/// An array over the memory of a tensor, which it keeps alive. `as`: the type of its elements.
Result array_over(Tensor x, DType as) {
  x = x.to(as).contiguous();
  std::vector<std::size_t> shape;
  for (int k = 0; k < x.rank(); ++k) shape.push_back(static_cast<std::size_t>(x.size(k)));
  auto* kept = new Tensor(x);
  nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  return Result(kept->mutable_address(), shape.size(), shape.data(), owner, nullptr, dtype_for_python(as));
}

using Arrays = std::map<std::string, Array>;

/// One call of an attention: its results, and its tape for the backward pass. A call has a module of its own, so that
/// calls in several threads, and calls that overlap in time, have nothing in common.
class Call {
 public:
  /// `seed` is that of dropout, and of the parameters that are not given. `gradients`: the tape is kept.
  Call(std::unique_ptr<Attention> attention, const Arrays& arrays, const Arrays& parameters, bool causal, bool train,
       bool gradients, std::uint64_t seed)
      : attention_(std::move(attention)) {
    nb::gil_scoped_release unlocked;
    read(arrays);
    set_parameters(parameters, seed);
    input_.causal = causal;
    if (causal) input_.query_offset = std::max<std::int64_t>(input_.key.size(1) - input_.query.size(1), 0);
    input_.trace = &trace_;
    attention_->train(train);
    GradMode recorded(gradients);
    RandomScope random({.seed = seed});
    output_ = attention_->forward(input_);
  }

  Result output() const { return array_over(output_.value(), dtype_); }
  Result weights() const { return array_over(trace_.weights.value(), dtype_); }
  std::map<std::string, Result> quantities() const {
    std::map<std::string, Result> found;
    for (const auto& [name, value] : trace_.quantities) found.emplace(name, array_over(value.value(), dtype_));
    return found;
  }

  /// The gradients of the sum of output * cotangent, by the names of the arrays and parameters.
  std::map<std::string, Result> gradients(const Array& cotangent) const {
    std::vector<Tensor> found;
    {
      nb::gil_scoped_release unlocked;
      std::vector<Variable> inputs;
      for (const auto& [name, leaf] : leaves_) inputs.push_back(leaf);
      const Tensor given = tensor_over_locked(cotangent).to(output_.dtype());
      for (const Variable& gradient : grad(output_, inputs, Variable(given), {.retain_graph = true}))
        found.push_back(gradient.value());
    }
    std::map<std::string, Result> named;
    for (std::size_t k = 0; k < found.size(); ++k) named.emplace(leaves_[k].first, array_over(found[k], dtypes_[k]));
    return named;
  }

 private:
  static Tensor tensor_over_locked(const Array& array) {
    nb::gil_scoped_acquire lock;
    return tensor_over(array);
  }

  /// The array as a leaf. bf16 is computed in f32, and its gradient is bf16 again.
  Variable leaf(const std::string& name, const Array& array) {
    const Tensor x = tensor_over_locked(array);
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
    constexpr std::pair<const char*, Tensor AttentionInput::*> whole_numbers[] = {
        {"lengths", &AttentionInput::key_lengths},
        {"documents", &AttentionInput::documents},
        {"allowed", &AttentionInput::allowed},
        {"grid", &AttentionInput::grid}};
    std::size_t known = 0;
    for (const auto& [name, member] : differentiable)
      if (const auto found = arrays.find(name); found != arrays.end())
        input_.*member = leaf(name, found->second), ++known;
    for (const auto& [name, member] : whole_numbers)
      if (const auto found = arrays.find(name); found != arrays.end())
        input_.*member = tensor_over_locked(found->second), ++known;
    require(known == arrays.size(), "attend: an array has a name that is none of an input's");
    dtype_ = dtypes_.front();
    if (!input_.key.defined()) input_.key = input_.query;
    if (!input_.value.defined()) input_.value = input_.key;
  }

  /// Puts the parameters of Python in the place of the module's own, and keeps them as leaves.
  void set_parameters(const Arrays& parameters, std::uint64_t seed) {
    std::vector<NamedParameter> own = attention_->parameters();
    attention_->to(type_of_computation(dtype_));
    if (parameters.size() < own.size()) attention_->initialise(seed);
    std::size_t known = 0;
    for (NamedParameter& parameter : own) {
      const auto found = parameters.find(parameter.name);
      if (found == parameters.end()) continue;
      ++known;
      const Shape expected = parameter.variable.shape();
      const Tensor x = tensor_over_locked(found->second);
      require(x.shape() == expected, "the parameter '{}' is {}; expected {}", parameter.name, x.describe(), expected);
      dtypes_.push_back(x.dtype());
      parameter.variable.value() = x.to(type_of_computation(x.dtype()));
      leaves_.emplace_back(parameter.name, parameter.variable);
    }
    require(known == parameters.size(), "{} of {} parameters have names that the attention does not have",
            parameters.size() - known, parameters.size());
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
    found.emplace_back(parameter.name, array_over(Variable(parameter.variable).value(), DType::f32));
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
          [](AttentionShape* self, std::int64_t model_dim, int heads, int layer, int layers, const std::string& place,
             double dropout, std::int64_t key_dim, std::int64_t value_dim, std::int64_t step_dim) {
            new (self) AttentionShape{.model_dim = model_dim,
                                      .heads = heads,
                                      .layer = layer,
                                      .layers = layers,
                                      .place = place_of(place),
                                      .dropout = dropout,
                                      .query_dim = model_dim,
                                      .key_dim = key_dim,
                                      .value_dim = value_dim,
                                      .step_dim = step_dim};
          },
          nb::kw_only(), nb::arg("model_dim"), nb::arg("heads"), nb::arg("layer"), nb::arg("layers"), nb::arg("place"),
          nb::arg("dropout"), nb::arg("key_dim"), nb::arg("value_dim"), nb::arg("step_dim"));
  nb::class_<Call>(module, "Call")
      .def("__init__",
           [](Call* self, const std::string& specification, const AttentionShape& shape, const Arrays& arrays,
              const Arrays& parameters, bool causal, bool train, bool gradients, std::uint64_t seed) {
             new (self)
                 Call(attention_factory(specification)(shape), arrays, parameters, causal, train, gradients, seed);
           })
      .def("output", &Call::output)
      .def("weights", &Call::weights)
      .def("quantities", &Call::quantities)
      .def("gradients", &Call::gradients);
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
