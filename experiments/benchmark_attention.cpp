// Times one attention without its projections, and compares it with matrix products and with plain attention.
#include <functional>
#include <memory>

#include "attention/engine/blockwise.h"
#include "attention/engine/fused.h"
#include "attention/layers/multi_head.h"
#include "attention/registry.h"
#include "experiments/benchmark.h"
#include "experiments/support/attend/engine_flags.h"
#include "experiments/support/program/device_flag.h"
#include "experiments/support/text/words.h"
#include "tensor/cpu/parallel.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/random.h"

namespace fovea {

namespace {

struct AttentionOptions {
  std::string method = "global";
  std::int64_t batch = 1, heads = 8, queries = 1024, keys = 0, head_dim = 64;
  bool causal = false, backward = false, table = false;
  std::string pass = "forward", engine = "fastest", precision = "f32";
  double dropout = 0;
  BenchmarkFlags run;

  Device device() const { return device_of(run.device_name); }
};

/// The plan of a method on random states, ready to be run again and again.
class Case {
 public:
  Case(const std::string& method, const std::string& engine, const AttentionOptions& options)
      : options_(options), method_(method), engine_(engine) {
    DType dtype = options.precision == "f64" ? DType::f64 : DType::f32;
    Place place = options.causal ? Place::decoder : options.keys == options.queries ? Place::encoder : Place::cross;
    const std::int64_t d = options.heads * options.head_dim;
    attention_ = attention_factory(method)({.model_dim = d, .heads = int(options.heads), .layers = 6, .place = place});
    auto* projected = dynamic_cast<MultiHeadAttention*>(attention_.get());
    require(projected, "--method {}: only projected multi-head attention is timed here", method);
    attention_->initialise(1);
    attention_->to(dtype);
    attention_->to(options.device());
    Generator generator(5);
    auto states = [&](std::int64_t length) {
      Tensor x = Tensor::empty({options.batch, length, d}, dtype, options.device());
      fill_normal(x, generator);
      return Variable(x);
    };
    Variable key = states(options.keys), query = place == Place::cross ? states(options.queries) : key;
    MultiHeadAttention::Call call =
        projected->call({.query = query, .key = key, .value = key, .causal = options.causal});
    in_ = call.context;
    plan_ = std::make_shared<const Plan>(std::move(call.plan));
    if (options.pass == "forward") return;
    inputs_ = variables_of(in_, *plan_);
    std::erase_if(inputs_, [](const Variable& input) { return !input.requires_grad(); });  // ALiBi's slopes
    set_precision();
    out_ = forward();
    cotangent_ = Tensor::empty(out_.shape(), dtype, options.device());
    fill_normal(cotangent_, generator);
  }

  /// Runs the pass that is timed.
  void run() {
    set_precision();
    if (options_.pass == "forward")
      results_ = {forward_only()};
    else if (options_.pass == "backward")
      results_ = grad(out_, inputs_, cotangent_, {.retain_graph = true});
    else
      results_ = grad(forward(), inputs_, cotangent_);
  }

  /// Returns the most bytes that the pass held at a time, beyond its inputs and its results.
  std::size_t extra_bytes() {
    results_.clear();
    const Device device = options_.device();
    std::size_t before = allocator_statistics(device).bytes_in_use;
    reset_peak(device);
    run();
    std::size_t peak = allocator_statistics(device).peak_bytes, given = 0;
    for (const Variable& result : results_) given += result.value().bytes();
    results_.clear();
    return peak - std::min(peak, before + given);
  }

 private:
  /// Sets the precision of this case's matrix products, because the cases take turns.
  void set_precision() const { set_matmul_precision(options_.precision == "bf16" ? Precision::bf16 : Precision::f32); }
  Variable forward() const {
    const AttentionDropout dropout{options_.dropout, {.seed = 1}};
    if (!plan_->mixers.empty()) {  // no engine computes their heads
      RandomScope random(RandomSource{.seed = 1});
      AttentionEngineScope scope(engine_ == "composed"    ? AttentionEngine::composed
                                 : engine_ == "blockwise" ? AttentionEngine::blockwise
                                                          : AttentionEngine::fastest);
      return attend(in_, *plan_, options_.dropout, nullptr);
    }
    if (engine_ == "composed") return attend_composed(in_, *plan_, dropout, nullptr).out;
    Variable out;
    if (engine_ != "blockwise") out = attend_fused(in_, plan_, dropout, nullptr).out;
    if (engine_ == "blockwise" || (engine_ == "fastest" && !out.defined()))
      out = attend_blockwise(in_, plan_, dropout, nullptr).out;
    require(out.defined(),
            "--engine {}: {} has a part without such a form, which attend --describe names; leave it out", engine_,
            method_);
    return out;
  }
  Variable forward_only() const {
    NoGrad off;
    return forward();
  }

  AttentionOptions options_;
  std::string method_, engine_;
  std::unique_ptr<Attention> attention_;
  AttentionContext in_;
  std::shared_ptr<const Plan> plan_;
  std::vector<Variable> inputs_, results_;
  Variable out_;
  Tensor cotangent_;
};

/// Returns the FLOPs of plain attention's matrix products over the visible pairs: two products forward, five backward.
double flops_of(const AttentionOptions& o) {
  double pairs = 0;
  for (std::int64_t i = 0; i < o.queries; ++i) pairs += double(o.causal ? std::min(i + 1, o.keys) : o.keys);
  const double products = o.pass == "forward" ? 2 : o.pass == "backward" ? 5 : 7;
  return 2 * products * double(o.batch * o.heads * o.head_dim) * pairs;
}

/// Times a method in turns with plain attention; with --engine both also with the composed form, and with --precision
/// bf16 also with the method in f32.
Json measure(const std::string& method, const AttentionOptions& options, double gemm) {
  const bool both = options.engine == "both", rounded = options.precision == "bf16";
  const std::string engine = both ? "fused" : options.engine;
  Case measured(method, engine, options), plain("global", engine, options);
  std::vector<Case*> cases{&measured, &plain};
  std::unique_ptr<Case> composed, in_f32;
  if (both) cases.push_back((composed = std::make_unique<Case>(method, "composed", options)).get());
  if (rounded) {
    AttentionOptions exact = options;
    exact.precision = "f32";
    cases.push_back((in_f32 = std::make_unique<Case>(method, engine, exact)).get());
  }
  const std::size_t extra = measured.extra_bytes();
  const Turns turns(cases.size(), options.run.rounds,
                    [&](std::size_t k) { return seconds_of_call(options.device(), 0.05, [&] { cases[k]->run(); }); });
  const double gflops = flops_of(options) / turns.middle(0) / 1e9;
  Json json = {{"method", method},
               {"pass", options.pass},
               {"engine", options.engine},
               {"precision", options.precision},
               {"gflops", gflops},
               {"gemm_gflops", gemm},
               {"ratio_to_gemm", gflops / gemm},
               {"ratio_to_plain", turns.speed_against(0, 1)},
               {"milliseconds", turns.middle(0) * 1e3},
               {"extra_bytes", extra}};
  if (both) json["ratio_to_composed"] = turns.speed_against(0, 2);
  if (rounded) json["ratio_to_f32"] = turns.speed_against(0, cases.size() - 1);
  return json;
}

void attention_flags(Cli& cli, AttentionOptions& options) {
  cli.describe(
      "Times one attention, forward or backward, without the projections before and after it. GFLOP/s count the matrix "
      "products of plain attention, for every method.");
  cli.option("--method", options.method,
             "attention method, such as \"gaussian(window=query)\"; several are separated by ';'");
  cli.option("--batch", options.batch, "number of sentences").range(1, 65536);
  cli.option("--heads", options.heads, "number of heads").range(1, 1024);
  cli.option("--queries", options.queries, "queries per sentence").range(1, 1e7);
  cli.option("--keys", options.keys, "keys per sentence; 0: as many as queries").range(0, 1e7);
  cli.option("--head-dim", options.head_dim, "width of a head").range(1, 65536);
  cli.option("--causal", options.causal, "queries see no later keys");
  cli.option("--pass", options.pass, "pass to time").one_of({"forward", "backward", "both"});
  cli.option("--backward", options.backward, "the same as --pass backward");
  cli.option("--engine", options.engine,
             engine_help +
                 "; fastest: fused, or blockwise if the method has no fused form; both: fused and composed in turn")
      .one_of({"fastest", "fused", "blockwise", "composed", "both"});
  cli.option("--dropout", options.dropout, "probability of dropping an attention weight").range(0, 0.99);
  cli.option("--precision", options.precision,
             precision_help +
                 ", and f32 is timed in turn with it; the fused engine rounds if there are at least 65 queries and "
                 "keys, the composed form only for a single head of a single sentence")
      .one_of({"f32", "f64", "bf16"});
  options.run.add_to(cli, "times the method and plain attention once");
  cli.option("--table", options.table, "time all methods instead of --method");
}

/// The methods of the flags, which must exist; with --table all of them.
std::vector<std::string> methods_of(const AttentionOptions& options) {
  std::vector<std::string> methods;
  if (options.table) {
    for (const MethodEntry& entry : registered_methods()) methods.emplace_back(entry.card.name);
    return methods;
  }
  for (std::string_view method : split_columns(options.method, ';')) methods.push_back(trimmed(method));
  with_flag("--method", [&] {
    for (const std::string& method : methods) attention_factory(method);
  });
  return methods;
}

}  // namespace

void benchmark_attention(Cli& cli) {
  AttentionOptions options;
  attention_flags(cli, options);
  cli.parse();
  if (options.backward) options.pass = "backward";
  if (options.keys == 0) options.keys = options.queries;
  require(!options.causal || options.keys == options.queries, "--causal: needs as many keys as queries, not {} and {}",
          options.keys, options.queries);
  options.run.start(cli);
  set_flush_denormals(options.precision != "f64");
  const std::vector<std::string> methods = methods_of(options);
  const double gemm = gemm_gflops(1024, options.device());
  Results results(options.run.json, {{"method", "method"},
                                     {"ms", "milliseconds", 3},
                                     {"GFLOP/s", "gflops", 1},
                                     {"of GEMM", "ratio_to_gemm", 3},
                                     {"of plain", "ratio_to_plain", 3},
                                     {"extra MiB", "extra_bytes", 2, per_mebibyte},
                                     {"of composed", "ratio_to_composed", 2},
                                     {"of f32", "ratio_to_f32", 2}});
  for (const std::string& method : methods) try {
      results.add(measure(method, options, gemm));
    } catch (const Error& error) {
      if (!options.table) throw;  // a table leaves out what cannot be timed
      fmt::print(stderr, "{}: {}\n", method, error.what());
    }
  results.print(fmt::format("GEMM: {:.1f} GFLOP/s (f32, 1024 x 1024 x 1024)\n", gemm));
}

}  // namespace fovea
