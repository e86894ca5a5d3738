#include "experiments/support/attend/attention_case.h"

#include <algorithm>
#include <memory>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/attend/engine_flags.h"
#include "experiments/support/text/words.h"
#include "tensor/gemm.h"
#include "tensor/support/suggestion.h"

namespace fovea {

void AttentionCase::add_to(Cli& cli) {
  cli.option("--method", method,
             "a specification, such as \"gaussian(window=query)\" or \"classic(additive)\"; --list shows all methods");
  cli.option("--shape", shape,
             "B,I,J,d: sentences, queries, keys and width of random inputs, which are used if --in has no query");
  cli.option("--heads", heads, "number of heads of attention with projections; must divide the width").range(1, 1024);
  cli.choice<std::optional<Place>>(
      "--place", place,
      {{"auto", std::nullopt}, {"encoder", Place::encoder}, {"decoder", Place::decoder}, {"cross", Place::cross}},
      "place in a model; decoder: queries see no later keys, and the last query is at the last key unless query_offset "
      "is given; auto: cross if there are keys that are not the queries, otherwise encoder");
  engine_flag(cli, engine);
  cli.choice("--precision", precision, {{"f32", Precision::f32}, {"f64", Precision::f64}, {"bf16", Precision::bf16}},
             "bf16: inputs, parameters and operands of large matrix products are rounded to bf16, the rest is f32");
  device_flag(cli, device);
  cli.option("--gradients", gradients,
             "also compute grad.NAME, the gradient of the sum of output * cotangent, for every input and parameter");
  cli.option("--weights", weights, "also write the attention weights, [B, H, I, J]");
  cli.option("--rows", rows,
             "compute numbers of each query and key in place of weights and quantities, with the engines fused and "
             "blockwise in memory linear in I and J: "
             "the largest logit and its key, logsumexp, and entropy in nats of a query's weights; the sum of the "
             "weights that a key receives");
  cli.option("--seed", seed, "seed of random inputs and parameters");
}

namespace {

constexpr std::pair<const char*, Variable AttentionInput::*> own_inputs[] = {
    {"mask", &AttentionInput::mask},
    {"left_pointer", &AttentionInput::left_pointer},
    {"right_pointer", &AttentionInput::right_pointer},
    {"step_input", &AttentionInput::step_input},
    {"previous_focus", &AttentionInput::previous_focus}};
constexpr std::pair<const char*, Tensor AttentionInput::*> whole_numbers[] = {{"lengths", &AttentionInput::key_lengths},
                                                                              {"documents", &AttentionInput::documents},
                                                                              {"allowed", &AttentionInput::allowed},
                                                                              {"grid", &AttentionInput::grid}};

std::vector<std::int64_t> without_ones(const Shape& shape) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  std::erase(sizes, 1);
  return sizes;
}

/// One attention with its inputs. Error messages name the file --in and the tensor; those about the shapes of optional
/// inputs are the attention's own.
class Computation {
 public:
  Computation(const AttentionCase& options, const Safetensors& file)
      : options_(options), file_(file), generator_(options.seed) {
    with_flag("--method", [&] { attention_factory(options_.method); });
    known_ = common_inputs;
    for (const ReadInput& one : inputs_of(options_.method))
      if (one.always) known_.push_back(one.name);
    read_states();
    read_optional_inputs();
    make_attention();
  }

  CaseTensors run() {
    RowQuantities rows;
    AttentionTrace trace;
    if (options_.rows) trace.rows = &rows;
    input_.trace = &trace;
    const GradMode mode(options_.gradients);
    Variable output;
    with_flag(subject(), [&] {
      output = attention_->forward(input_);
      output.value().to(Device::cpu);  // waits for a GPU, which reports the errors of masks and lengths late
    });
    CaseTensors tensors;
    for (const auto& [name, variable] : leaves_) tensors.emplace_back(name, variable.value());
    tensors.insert(tensors.end(), counts_.begin(), counts_.end());
    tensors.emplace_back("output", output.value());
    if (options_.weights) tensors.emplace_back("weights", trace.weights.value());
    if (options_.rows)
      for (const auto& [name, member] : row_tensors) tensors.emplace_back(name, rows.*member);
    for (const TracedQuantity& quantity : trace.quantities) {
      const auto is_taken = [&](const std::string& one) {
        return std::ranges::any_of(tensors, [&](const auto& other) { return other.first == one; });
      };
      std::string free = quantity.name;
      for (int use = 2; is_taken(free); ++use) free = fmt::format("{}_{}", quantity.name, use);
      tensors.emplace_back(free, quantity.value.value());
    }
    refuse_unknown(tensors);
    Tensor cotangent = given("cotangent");  // checked even if no gradients are computed
    if (cotangent.defined() && (cotangent.shape() != output.shape() || !is_float(cotangent.dtype())))
      refuse("cotangent", "floating-point numbers " + output.shape().str() + ", the shape of the output");
    if (options_.gradients) add_gradients(tensors, output, cotangent.defined() ? cotangent : random(output.shape()));
    return tensors;
  }

 private:
  bool is_known(const std::string& name) const { return std::ranges::count(known_, name) > 0; }

  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const {
    fail("{}: '{}' is {}; expected {}", file_.source, name, file_.at(name), expected);
  }
  /// The tensor of this name on the device, numbers that are not whole in the chosen precision; undefined without one.
  Tensor given(const std::string& name) const {
    const Tensor* x = is_known(name) ? file_.find(name) : nullptr;
    return x ? converted(*x) : Tensor();
  }
  Tensor converted(Tensor x) const {
    if (is_float(x.dtype()) && options_.precision == AttentionCase::Precision::bf16) x = x.to(DType::bf16);
    if (is_float(x.dtype())) x = x.to(float_type());
    return x.to(options_.compute_device());
  }
  DType float_type() const { return options_.precision == AttentionCase::Precision::f64 ? DType::f64 : DType::f32; }
  Tensor random(const Shape& shape) {
    Tensor x = Tensor::empty(shape, DType::f64);
    fill_normal(x, generator_);
    return converted(x);
  }
  /// The flags that describe the attention, as the beginning of an error message about it.
  std::string subject() const {
    return fmt::format("--method '{}'{}", options_.method,
                       options_.heads == 1 ? "" : fmt::format(", --heads {}", options_.heads));
  }

  Variable add(const std::string& name, const Tensor& value) {
    if (!value.defined()) return {};
    leaves_.emplace_back(name, Variable(value, is_float(value.dtype())));
    return leaves_.back().second;
  }

  /// Query, key and value, given or random. Without a key this is self-attention.
  void read_states() {
    const std::vector<int>& shape = options_.shape;
    require(shape.size() == 4 && std::ranges::all_of(shape, [](int size) { return size > 0; }),
            "--shape: expected four sizes B,I,J,d, each at least 1");
    const auto states = [&](const std::string& name) {
      const Tensor x = given(name);
      if (x.defined() && !(is_float(x.dtype()) && x.rank() == 3 && x.size(1) > 0 && x.size(2) > 0))
        refuse(name, "f32, f64 or bf16 [B, tokens, width], at least one token and a width of at least 1");
      return x;
    };
    Tensor query = states("query"), key = states("key"), value = states("value");
    if (!query.defined()) {
      require(!key.defined() && !value.defined(), "{}: there is a 'key' or 'value', but no 'query'", file_.source);
      with_flag("--shape", [&] {
        query = random({shape[0], shape[1], shape[3]});
        if (options_.place == Place::cross || shape[1] != shape[2]) key = random({shape[0], shape[2], shape[3]});
      });
    }
    place_ = options_.place.value_or(key.defined() ? Place::cross : Place::encoder);
    input_.query = add("query", query);
    input_.key = key.defined() ? add("key", key) : input_.query;
    input_.value = value.defined() ? add("value", value) : input_.key;
    input_.causal = place_ == Place::decoder;
    if (input_.causal) input_.query_offset = std::max<std::int64_t>(input_.key.size(1) - input_.query.size(1), 0);
  }

  void read_optional_inputs() {
    for (const auto& [name, member] : own_inputs) input_.*member = add(name, given(name));
    for (const auto& [name, member] : whole_numbers) {
      if (!is_known(name) || !file_.find(name)) continue;
      input_.*member = file_.at(name);
      const DType dtype = (input_.*member).dtype();
      const bool is_mask = name == std::string_view("allowed");
      if (is_mask ? is_float(dtype) : dtype != DType::i32 && dtype != DType::i64)
        refuse(name, is_mask ? "whole numbers, or truth values" : "i32 or i64");
      counts_.emplace_back(name, input_.*member);
    }
    if (const Tensor* offset = file_.find("query_offset")) {
      if (is_float(offset->dtype()) || offset->elements() != 1) refuse("query_offset", "i32 or i64 [1]");
      input_.query_offset = offset->to_vector<std::int64_t>()[0];
    }
    if (input_.query_offset != 0 || file_.find("query_offset"))
      counts_.emplace_back("query_offset", Tensor::from(std::vector<std::int64_t>{input_.query_offset}, {1}));
  }

  void make_attention() {
    const AttentionShape shape{.model_dim = input_.query.size(2),
                               .heads = options_.heads,
                               .place = place_,
                               .query_dim = input_.query.size(2),
                               .key_dim = input_.key.size(2),
                               .value_dim = input_.value.size(2),
                               .step_dim = input_.step_input.defined() ? input_.step_input.size(-1) : 0};
    with_flag(subject(), [&] { attention_ = attention_factory(options_.method)(shape); });
    attention_->to(float_type());
    attention_->initialise(options_.seed);
    attention_->to(options_.compute_device());
    attention_->train(false);
    for (const NamedParameter& parameter : attention_->parameters()) {
      known_.push_back(parameter.name);
      Tensor values = Variable(parameter.variable).value(), own = given(parameter.name);
      // a parameter may have other dimensions of one: that of the heads, for example
      if (own.defined() && without_ones(own.shape()) == without_ones(values.shape())) own = own.reshape(values.shape());
      if (own.defined() && (own.shape() != values.shape() || !is_float(own.dtype())))
        refuse(parameter.name, "f32, f64 or bf16 " + values.shape().str());
      values.copy_from(own.defined() ? own : converted(values));
      leaves_.emplace_back(parameter.name, parameter.variable);
    }
  }

  /// Throws Error for a tensor that is no input or parameter: under a misspelt name, a parameter would silently stay
  /// random. Results of an earlier run are accepted, because the file may be one that attend wrote.
  void refuse_unknown(const CaseTensors& results) const {
    for (const auto& [name, tensor] : file_.tensors) {
      const bool is_result =
          name == "weights" || name.starts_with("grad.") || name.starts_with("rows.") ||
          std::ranges::any_of(results, [&, &wanted = name](const auto& one) { return one.first == wanted; });
      const std::string meant = did_you_mean(name, known_);
      require(is_known(name) || is_result, "{}: {} has no input or parameter '{}'{}", file_.source, options_.method,
              name, meant.empty() ? "; it has " + listed(known_, ", ") : meant);
    }
  }

  void add_gradients(CaseTensors& tensors, const Variable& output, const Tensor& cotangent) const {
    tensors.emplace_back("cotangent", cotangent);
    std::vector<Variable> differentiable;
    std::vector<std::string> names;
    for (const auto& [name, variable] : leaves_) {
      if (!variable.requires_grad()) continue;
      differentiable.push_back(variable);
      names.push_back("grad." + name);
    }
    const Gradients gradients = grad(output, differentiable, cotangent);
    for (std::size_t k = 0; k < names.size(); ++k) tensors.emplace_back(names[k], gradients[k].value());
  }

  const AttentionCase& options_;
  const Safetensors& file_;
  Generator generator_;
  std::vector<std::string> known_;  ///< the names of inputs and parameters that this attention reads
  Place place_ = Place::encoder;
  AttentionInput input_{};
  std::unique_ptr<Attention> attention_;
  std::vector<std::pair<std::string, Variable>> leaves_;
  CaseTensors counts_;  ///< inputs of whole numbers
};

/// Sets the engine of this thread and the precision of matrix products in this process, for the lifetime of this
/// object.
class Settings {
 public:
  explicit Settings(const AttentionCase& options) : engine_(options.engine) {
    set_matmul_precision(options.precision == AttentionCase::Precision::bf16 ? Precision::bf16 : Precision::f32);
  }
  ~Settings() { set_matmul_precision(precision_); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

 private:
  AttentionEngineScope engine_;
  Precision precision_ = matmul_precision();
};

}  // namespace

CaseTensors attend_case(const AttentionCase& options, const Safetensors& given) {
  require(!options.rows || !options.weights,
          "--rows leaves out the weights that --weights writes; give one of the two");
  kernels(options.compute_device());  // throws Error if the device does not exist
  const Settings settings(options);
  return Computation(options, given).run();
}

}  // namespace fovea
