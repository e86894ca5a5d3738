#include "experiments/support/attend/attention_case.h"

#include <algorithm>
#include <memory>

#include "attention/engine/attend.h"
#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/attend/engine_flags.h"
#include "tensor/gemm.h"
#include "tensor/support/suggestion.h"

namespace fovea {

void AttentionCase::add_to(Cli& cli) {
  cli.option("--method", method,
             "a specification, such as \"gaussian(window=query)\" or \"classic(additive)\"; --list shows all methods");
  cli.option("--shape", shape,
             "B,m,n,d: sentences, queries, keys and width of random inputs, which are used if --in has no query");
  cli.option("--heads", heads, "number of heads of attention with projections; must divide the width").range(1, 1024);
  cli.option("--causal", causal,
             "queries see no later keys; with n >= m keys the last query is at the last key, unless query_offset is "
             "given");
  cli.choice<std::optional<Place>>(
      "--place", place,
      {{"auto", std::nullopt}, {"encoder", Place::encoder}, {"decoder", Place::decoder}, {"cross", Place::cross}},
      "place in a model; auto: decoder with --causal, otherwise encoder if the keys are the queries, and cross if not; "
      "decoder requires --causal");
  engine_flag(cli, engine);
  cli.choice("--precision", precision, {{"f32", Precision::f32}, {"f64", Precision::f64}, {"bf16", Precision::bf16}},
             "bf16: inputs, parameters and operands of large matrix products are rounded to bf16, the rest is f32");
  device_flag(cli, device);
  cli.option("--gradients", gradients,
             "also compute grad.NAME, the gradient of the sum of output * cotangent, for every input and parameter");
  cli.option("--weights", weights, "also write the attention weights, [B, H, m, n]");
  cli.option("--seed", seed, "seed of random inputs and parameters");
}

namespace {

bool is_whole(const Tensor& x) { return x.dtype() == DType::i32 || x.dtype() == DType::i64; }

/// Reads the tensors of the file --in in the chosen precision. Error messages have the names of the file and the
/// tensor.
class GivenTensors {
 public:
  GivenTensors(const Safetensors& file, const AttentionCase& options) : file_(file), options_(options) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const {
    fail("{}: '{}' is {}; expected {}", file_.source, name, file_.at(name), expected);
  }
  /// The tensor `name` as it is in the file; undefined if the file does not have it. Throws Error unless it fits.
  template <class Fits>
  Tensor fitting(const std::string& name, const std::string& expected, const Fits& fits) const {
    if (!has(name)) return {};
    if (!fits(file_.at(name))) refuse(name, expected);
    return file_.at(name);
  }
  /// The tensor `name` of floating-point numbers, in the chosen precision and on the chosen device. Throws Error for
  /// other types, and unless it has this rank, if one is given.
  Tensor numbers(const std::string& name, int rank = 0, const char* expected = "") const {
    fitting(name, expected, [&](const Tensor& x) { return rank == 0 || x.rank() == rank; });
    const Tensor x = fitting(name, "f32, f64 or bf16", [](const Tensor& own) { return is_float(own.dtype()); });
    return x.defined() ? in_precision(x) : x;
  }
  /// The `count` numbers of the tensor `name`, which must be of an integer type.
  std::vector<std::int64_t> integers(const std::string& name, std::int64_t count) const {
    auto fits = [&](const Tensor& x) {
      return (is_whole(x) || x.dtype() == DType::u8) && x.rank() <= 1 && x.elements() == count;
    };
    return fitting(name, fmt::format("i32 or i64 [{}]", count), fits).to_vector<std::int64_t>();
  }

  Tensor random(const Shape& shape, Generator& generator) const {
    Tensor x = Tensor::empty(shape, DType::f64);
    fill_normal(x, generator);
    return in_precision(x);
  }
  Tensor in_precision(Tensor x) const {
    if (options_.precision == AttentionCase::Precision::bf16) x = x.to(DType::bf16);
    x = x.to(options_.precision == AttentionCase::Precision::f64 ? DType::f64 : DType::f32);
    return x.to(options_.compute_device());
  }

  const std::string& source() const { return file_.source; }
  const Safetensors& file() const { return file_; }

 private:
  const Safetensors& file_;
  const AttentionCase& options_;
};

/// The inputs of the attention. `leaves` has the variables by name.
struct Inputs {
  AttentionInput input;
  std::vector<std::pair<std::string, Variable>> leaves;
  CaseTensors counts;  ///< lengths, query_offset, allowed, documents and grid
  Place place = Place::encoder;

  Variable add(const std::string& name, const Tensor& value, bool differentiable = true) {
    if (!value.defined()) return {};
    leaves.emplace_back(name, Variable(value, differentiable));
    return leaves.back().second;
  }
  Tensor count(const std::string& name, const Tensor& value) {
    if (value.defined()) counts.emplace_back(name, value);
    return value;
  }
};

/// Throws Error for a place that contradicts --causal. As in nn/, a decoder's self-attention is causal, and other
/// attention is not.
void require_place_fits(const AttentionCase& options) {
  if (!options.place || (*options.place == Place::decoder) == options.causal) return;
  fail("{}", *options.place == Place::decoder
                 ? "--place decoder: a decoder's self-attention is causal; add --causal, or give --place encoder"
             : *options.place == Place::encoder
                 ? "--place encoder: an encoder's self-attention is not causal; leave out --causal, or give --place "
                   "decoder"
                 : "--place cross: cross-attention is not causal; leave out --causal, or give --place decoder");
}

/// Adds query, key and value, given or random. Without a key this is self-attention.
void add_states(Inputs& in, const AttentionCase& options, const GivenTensors& given, Generator& generator) {
  const std::vector<int>& shape = options.shape;
  require(shape.size() == 4 && std::all_of(shape.begin(), shape.end(), [](int size) { return size > 0; }),
          "--shape: expected four sizes B,m,n,d, each at least 1");
  const bool random = !given.has("query"), cross = options.place == Place::cross;
  require(!random || (!given.has("key") && !given.has("value")), "{}: there is a 'key' or 'value', but no 'query'",
          given.source());
  Tensor query = given.numbers("query", 3, "[B, m, d_q]");
  if (random) with_flag("--shape", [&] { query = given.random({shape[0], shape[1], shape[3]}, generator); });
  Tensor key = given.numbers("key", 3, "[B, n, d_k]"), value = given.numbers("value", 3, "[B, n, d_v]");
  if (random && (cross || shape[1] != shape[2]))
    with_flag("--shape", [&] { key = given.random({shape[0], shape[2], shape[3]}, generator); });
  if (query.size(1) == 0) given.refuse("query", "[B, m, d_q] with m at least 1");
  for (auto [name, states, expected] : {std::tuple("query", &query, "[B, m, d_q] with d_q at least 1"),
                                        std::tuple("key", &key, "[B, n, d_k] with d_k at least 1"),
                                        std::tuple("value", &value, "[B, n, d_v] with d_v at least 1")})
    if (states->defined() && states->size(2) == 0) given.refuse(name, expected);
  in.input.query = in.add("query", query);
  in.input.key = key.defined() ? in.add("key", key) : in.input.query;
  in.input.value = value.defined() ? in.add("value", value) : in.input.key;

  const std::int64_t B = query.size(0), n = in.input.key.size(1);
  if (key.defined() && key.size(0) != B)
    given.refuse("key", fmt::format("[{}, n, d_k], because 'query' is {}", B, query.shape()));
  if (value.defined() && (value.size(0) != B || value.size(1) != n))
    given.refuse("value", fmt::format("[{}, {}, d_v], because the keys are {}", B, n, in.input.key.shape()));
  const bool self =
      !key.defined() || (query.shape() == key.shape() && query.to_vector<double>() == key.to_vector<double>());
  in.place = options.place ? *options.place : options.causal ? Place::decoder : self ? Place::encoder : Place::cross;
}

/// Adds lengths and query_offset.
void add_counts(Inputs& in, const AttentionCase& options, const GivenTensors& given) {
  const std::int64_t B = in.input.query.size(0), m = in.input.query.size(1), n = in.input.key.size(1);
  if (given.has("lengths")) {
    const std::vector<std::int64_t> lengths = given.integers("lengths", B);
    for (std::int64_t length : lengths)
      require(0 <= length && length <= n, "{}: 'lengths' has {}; a length must be in 0 ... {}", given.source(), length,
              n);
    in.input.key_lengths = in.count("lengths", Tensor::from(lengths, {B}).to(DType::i32));
  }
  in.input.causal = options.causal;
  if (options.causal) in.input.query_offset = std::max<std::int64_t>(n - m, 0);
  require(!given.has("query_offset") || !given.has("step"), "{}: 'step' and 'query_offset' mean the same; give one",
          given.source());
  const std::string name = given.has("step") ? "step" : "query_offset";
  if (given.has(name)) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    const std::int64_t offset = given.integers(name, 1)[0];
    require(0 <= offset && offset <= most, "{}: '{}' is {}; a position must be in 0 ... {}", given.source(), name,
            offset, most);
    in.input.query_offset = offset;
  }
  if (in.input.query_offset != 0 || given.has(name))
    in.count(name, Tensor::from(std::vector<std::int64_t>{in.input.query_offset}, {1}));
}

Inputs read_inputs(const AttentionCase& options, const GivenTensors& given, Generator& generator) {
  Inputs in;
  add_states(in, options, given, generator);
  add_counts(in, options, given);
  auto anything = [](const Tensor&) { return true; };
  auto add = [&](const std::string& name, const std::string& expected, auto&& fits) -> Variable {
    const Tensor x = given.fitting(name, expected, fits);
    if (!x.defined()) return {};
    return is_float(x.dtype()) ? in.add(name, given.in_precision(x))
                               : in.add(name, x.to(options.compute_device()), false);
  };
  in.input.mask = add("mask", "", anything);
  in.input.allowed =
      in.count("allowed", given.fitting("allowed", "bool or u8 [B or 1, H or 1, m or 1, n]",
                                        [](auto& x) { return x.dtype() == DType::boolean || x.dtype() == DType::u8; }));
  const std::int64_t B = in.input.key.size(0), n = in.input.key.size(1);
  in.input.documents =
      in.count("documents",
               given.fitting("documents", fmt::format("i32 or i64 [{}, {}], the number of each token's document", B, n),
                             [&](auto& x) {
                               return is_whole(x) && x.shape() == Shape{B, n};
                             }));
  require(!in.input.documents.defined() ||
              (in.place != Place::cross && in.input.query.size(1) == n && in.input.query_offset == 0),
          "{}: 'documents' needs self-attention over whole rows: as many queries as keys, without query_offset",
          given.source());
  // Distributions are differentiable inputs, positions are not.
  for (auto [name, pointer] :
       {std::pair("left_pointer", &in.input.left_pointer), std::pair("right_pointer", &in.input.right_pointer)})
    *pointer =
        add(name,
            "positions, i32 or i64 [B or 1, H or 1, m or 1], or distributions, f32, f64 or bf16 [B or 1, H or 1, "
            "m or 1, n]",
            [](auto& x) { return (is_whole(x) && x.rank() == 3) || (is_float(x.dtype()) && x.rank() == 4); });
  in.input.grid = in.count(
      "grid",
      given.fitting("grid", "i32 or i64 [n, 2] or [B or 1, n, 2], the row and column of each token",
                    [](auto& x) { return is_whole(x) && (x.rank() == 2 || x.rank() == 3) && x.size(-1) == 2; }));
  in.input.step_input = in.add("step_input", given.numbers("step_input", 3, "[B, m, d_e]"));
  in.input.previous_focus = in.add("previous_focus", given.numbers("previous_focus"));
  return in;
}

/// The flags that describe the attention, as the beginning of an error message about it.
std::string asked(const AttentionCase& options) {
  return fmt::format("--method '{}'{}", options.method,
                     options.heads == 1 ? "" : fmt::format(", --heads {}", options.heads));
}

std::unique_ptr<Attention> make_attention(const AttentionCase& options, const GivenTensors& given, const Inputs& in) {
  AttentionShape shape{.model_dim = in.input.query.size(2), .heads = options.heads, .place = in.place};
  shape.query_dim = shape.model_dim;
  shape.key_dim = in.input.key.size(2);
  shape.value_dim = in.input.value.size(2);
  if (in.input.step_input.defined()) shape.step_dim = in.input.step_input.size(2);
  std::unique_ptr<Attention> attention;
  with_flag("--method", [&] { attention_factory(options.method); });
  with_flag(asked(options), [&] { attention = attention_factory(options.method)(shape); });
  attention->to(options.precision == AttentionCase::Precision::f64 ? DType::f64 : DType::f32);
  attention->initialise(options.seed);
  attention->to(options.compute_device());
  attention->train(false);
  for (const NamedParameter& parameter : attention->parameters()) {
    Tensor values = Variable(parameter.variable).value(), own = given.numbers(parameter.name);
    // a parameter with a dimension of heads is accepted for one head
    if (own.defined() && own.rank() == values.rank() + 1 && own.size(0) == 1) own = own.squeeze(0);
    if (own.defined() && own.shape() != values.shape()) given.refuse(parameter.name, values.shape().str());
    values.copy_from(own.defined() ? own : given.in_precision(values));
  }
  return attention;
}

/// Names of the given inputs that only some methods read and that this attention does not read.
std::vector<std::string> unread_inputs(const AttentionCase& options, const GivenTensors& given) {
  std::vector<std::string> unread;
  const std::vector<ReadInput> read = inputs_of(options.method);
  for (const char* name : {"mask", "left_pointer", "right_pointer", "grid", "step_input", "previous_focus"})
    if (given.has(name) && std::none_of(read.begin(), read.end(),
                                        [&](const ReadInput& input) { return input.name == name && input.always; }))
      unread.emplace_back(name);
  return unread;
}

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

/// Throws Error for a tensor that is no input or parameter: under a misspelt name, a parameter would silently stay
/// random. Results of an earlier run are accepted, because the file may be one that attend wrote; they are computed
/// anew.
void refuse_unknown(const GivenTensors& given, const Attention& attention, const std::string& method,
                    const std::vector<std::string>& results) {
  std::vector<std::string> known{"query",         "key",       "value",      "lengths",        "query_offset",
                                 "step",          "documents", "allowed",    "mask",           "left_pointer",
                                 "right_pointer", "grid",      "step_input", "previous_focus", "cotangent"};
  for (const NamedParameter& parameter : attention.parameters()) known.push_back(parameter.name);
  for (const auto& [name, tensor] : given.file().tensors)
    if (!std::count(known.begin(), known.end(), name) && name != "weights" && !name.starts_with("grad.") &&
        !std::count(results.begin(), results.end(), name))
      fail("{}: {} has no input or parameter '{}'{}; it has {}", given.source(), method, name,
           did_you_mean(name, known), listed(known));
}

void add_gradients(CaseTensors& tensors, const Inputs& in, const Variable& output, const Tensor& cotangent) {
  tensors.emplace_back("cotangent", cotangent);
  std::vector<Variable> differentiable;
  std::vector<std::string> names;
  for (const auto& [name, variable] : in.leaves) {
    if (!variable.requires_grad()) continue;
    differentiable.push_back(variable);
    names.push_back("grad." + name);
  }
  const Gradients gradients = grad(output, differentiable, cotangent);
  for (std::size_t k = 0; k < names.size(); ++k) tensors.emplace_back(names[k], gradients[k].value());
}

}  // namespace

std::string free_name(const std::string& name, const std::vector<std::string>& taken) {
  std::string free = name;
  for (int use = 2; std::count(taken.begin(), taken.end(), free); ++use) free = fmt::format("{}_{}", name, use);
  return free;
}

AttentionResult attend_case(const AttentionCase& options, const Safetensors& file) {
  require_place_fits(options);
  require_engine_for(options.engine, options.compute_device());
  kernels(options.compute_device());  // throws Error if the device does not exist
  GivenTensors given(file, options);
  Generator generator(options.seed);
  Inputs in = read_inputs(options, given, generator);
  std::unique_ptr<Attention> attention = make_attention(options, given, in);
  for (const NamedParameter& parameter : attention->parameters())
    in.leaves.emplace_back(parameter.name, parameter.variable);

  Settings settings(options);
  GradMode mode(options.gradients);
  AttentionTrace trace;
  in.input.trace = &trace;
  Variable output;
  with_flag(asked(options), [&] {
    output = attention->forward(in.input);
    output.value().to(Device::cpu);  // waits for a GPU, which reports the errors of masks and lengths late
  });

  AttentionResult result{{}, unread_inputs(options, given), in.place};
  auto is_unread = [&](const auto& input) {
    return std::count(result.unread.begin(), result.unread.end(), input.first) > 0;
  };
  std::erase_if(in.leaves, is_unread);
  std::erase_if(in.counts, is_unread);
  for (const auto& [name, variable] : in.leaves) result.tensors.emplace_back(name, variable.value());
  result.tensors.insert(result.tensors.end(), in.counts.begin(), in.counts.end());
  result.tensors.emplace_back("output", output.value());
  if (options.weights) result.tensors.emplace_back("weights", trace.weights.value());
  std::vector<std::string> taken;
  for (const auto& [name, tensor] : result.tensors) taken.push_back(name);
  for (const auto& [name, value] : trace.quantities) {
    taken.push_back(free_name(name, taken));
    result.tensors.emplace_back(taken.back(), value.value());
  }
  refuse_unknown(given, *attention, options.method, taken);
  // a result of an earlier run, not an input
  std::erase_if(result.unread, [&](const std::string& name) { return std::count(taken.begin(), taken.end(), name); });
  Tensor cotangent = given.numbers("cotangent");  // checked even if no gradients are computed
  if (cotangent.defined() && cotangent.shape() != output.shape())
    given.refuse("cotangent", output.shape().str() + ", the shape of the output");
  if (options.gradients)
    add_gradients(result.tensors, in, output,
                  cotangent.defined() ? cotangent : given.random(output.shape(), generator));
  return result;
}

}  // namespace fovea
