// One attention without its projections: how near it comes to the machine's matrix products, and to plain attention.
#include <memory>

#include <omp.h>

#include "attention/fused.h"
#include "attention/multi_head.h"
#include "attention/registry.h"
#include "experiments/benchmark.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/report/table.h"
#include "tensor/gemm.h"
#include "tensor/parallel.h"
#include "tensor/random.h"

namespace fovea {

namespace {

struct AttentionOptions {
  std::string method = "global";
  std::int64_t batch = 1, heads = 8, queries = 1024, keys = 0, head_dim = 64;
  bool causal = false, backward = false, table = false, json = false;
  std::string engine = "fused", precision = "f32";
  int rounds = 5, threads = 0;
};

/// A method's terms on random states, ready to be run again and again.
class Case {
 public:
  Case(const std::string& method, const AttentionOptions& options) : options_(options) {
    DType dtype = options.precision == "f64" ? DType::f64 : DType::f32;
    Place place = options.causal ? Place::decoder : options.keys == options.queries ? Place::encoder : Place::cross;
    const std::int64_t d = options.heads * options.head_dim;
    attention_ = attention_factory(method)(
        {.model_dim = d, .heads = static_cast<int>(options.heads), .layers = 6, .place = place});
    auto* projected = dynamic_cast<MultiHeadAttention*>(attention_.get());
    require(projected, "--method {}: only projected multi-head attention is timed here", method);
    attention_->initialise(1);
    attention_->to(dtype);
    Generator generator(5);
    auto states = [&](std::int64_t length) {
      Tensor x = Tensor::empty({options.batch, length, d}, dtype);
      fill_normal(x, generator);
      return Variable(x);
    };
    Variable key = states(options.keys), query = place == Place::cross ? states(options.queries) : key;
    MultiHeadAttention::Call call =
        projected->call({.query = query, .key = key, .value = key, .causal = options.causal});
    in_ = call.context;
    terms_ = std::make_shared<const Terms>(std::move(call.terms));
    if (!options.backward) return;
    inputs_ = fused_inputs(in_, terms_);
    std::erase_if(inputs_, [](const Variable& input) { return !input.requires_grad(); });  // ALiBi's slopes
    out_ = forward();
    cotangent_ = Tensor::empty(out_.shape(), dtype);
    fill_normal(cotangent_, generator);
  }

  /// One pass: forward, or backward alone.
  void run() {
    if (options_.backward)
      results_ = grad(out_, inputs_, cotangent_, {.retain_graph = true});
    else
      results_ = {forward_only()};
  }

  /// Peak beyond what was there before and what the pass gives back.
  std::size_t extra_bytes() {
    results_.clear();
    std::size_t before = allocator_statistics().bytes_in_use;
    reset_peak();
    run();
    std::size_t peak = allocator_statistics().peak_bytes, given = 0;
    for (const Variable& result : results_) given += result.value().bytes();
    results_.clear();
    return peak - std::min(peak, before + given);
  }

 private:
  Variable forward() const {
    if (options_.engine == "composed") return attend_composed(in_, *terms_, {}, nullptr);
    Variable out = attend_fused(in_, terms_, {}, nullptr);
    require(out.defined(), "--engine fused: {} has a term without a fused form", options_.method);
    return out;
  }
  Variable forward_only() const {
    NoGrad off;
    return forward();
  }

  AttentionOptions options_;
  std::unique_ptr<Attention> attention_;
  AttentionContext in_;
  std::shared_ptr<const Terms> terms_;
  std::vector<Variable> inputs_, results_;
  Variable out_;
  Tensor cotangent_;
};

/// Of plain attention's products: two forward, five backward, over the pairs that are looked at.
double flops_of(const AttentionOptions& o) {
  double pairs = 0;
  for (std::int64_t i = 0; i < o.queries; ++i)
    pairs += static_cast<double>(o.causal ? std::min(i + 1, o.keys) : o.keys);
  return (o.backward ? 10.0 : 4.0) * static_cast<double>(o.batch * o.heads * o.head_dim) * pairs;
}

struct Timing {
  double seconds, ratio_to_plain;
  std::size_t extra_bytes;
};

/// Alternates the method and plain attention.
Timing time_method(const std::string& method, const AttentionOptions& options) {
  Case measured(method, options), plain("global", options);
  const std::size_t extra = measured.extra_bytes();
  plain.run();
  std::vector<double> seconds, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    auto time = [&](Case& which) {
      int repeats = 0;
      double total = 0;
      while (total < 0.05) total += seconds_of([&] { which.run(); }), ++repeats;
      return total / repeats;
    };
    seconds.push_back(time(measured));
    ratios.push_back(time(plain) / seconds.back());
  }
  return {median(seconds), median(ratios), extra};
}

}  // namespace

void benchmark_attention(Cli& cli) {
  AttentionOptions options;
  cli.describe(
      "Times one attention, forward or backward, without the projections before and after it. GFLOP/s count the "
      "products "
      "of plain attention, whatever else a method computes.");
  cli.option("--method", options.method, "as in \"gaussian(window=query)\"");
  cli.option("--batch", options.batch, "sentences").range(1, 65536);
  cli.option("--heads", options.heads, "heads").range(1, 1024);
  cli.option("--queries", options.queries, "of a sentence").range(1, 1e7);
  cli.option("--keys", options.keys, "of a sentence; 0: as many as queries").range(0, 1e7);
  cli.option("--head-dim", options.head_dim, "width of a head").range(1, 65536);
  cli.option("--causal", options.causal, "queries see no later keys");
  cli.option("--backward", options.backward, "time the backward pass instead of the forward pass");
  cli.option("--engine", options.engine, "how it is computed").one_of({"fused", "composed"});
  cli.option("--precision", options.precision, "of everything").one_of({"f32", "f64"});
  cli.option("--rounds", options.rounds, "each times the method and plain attention once").range(1, 1000);
  cli.option("--threads", options.threads, "0: one per core").range(0, 1024);
  cli.option("--table", options.table, "all methods of the registry instead of --method");
  cli.option("--json", options.json, "one JSON object a line instead of the table");
  cli.parse();
  if (options.keys == 0) options.keys = options.queries;
  require(!options.causal || options.keys == options.queries, "--causal: needs as many keys as queries, not {} and {}",
          options.keys, options.queries);
  if (options.threads > 0) omp_set_num_threads(options.threads);
  set_flush_denormals(options.precision != "f64");

  std::vector<std::string> methods;
  if (options.table)
    for (const MethodEntry& entry : registered_methods()) methods.emplace_back(entry.card.name);
  else
    methods.push_back(options.method);
  if (!options.table) with_flag("--method", [&] { attention_factory(options.method); });
  const double gemm = machine_gemm_gflops(1024), flops = flops_of(options);
  Table table({"method", "ms", "GFLOP/s", "of GEMM", "of plain", "extra MiB"});
  for (const std::string& method : methods) {
    try {
      Timing timing = time_method(method, options);
      double gflops = flops / timing.seconds / 1e9, milliseconds = timing.seconds * 1e3;
      if (options.json)
        fmt::print("{}\n", Json{{"method", method},
                                {"pass", options.backward ? "backward" : "forward"},
                                {"engine", options.engine},
                                {"precision", options.precision},
                                {"gflops", gflops},
                                {"gemm_gflops", gemm},
                                {"ratio_to_gemm", gflops / gemm},
                                {"ratio_to_plain", timing.ratio_to_plain},
                                {"milliseconds", milliseconds},
                                {"extra_bytes", timing.extra_bytes}}
                               .dump());
      else
        table.row({method, Cell::number(milliseconds, 3), Cell::number(gflops, 1), Cell::number(gflops / gemm, 3),
                   Cell::number(timing.ratio_to_plain, 3),
                   Cell::number(static_cast<double>(timing.extra_bytes) / 1048576.0, 2)});
    } catch (const Error& error) {
      if (!options.table) throw;
      fmt::print(stderr, "{}: {}\n", method, error.what());
    }
  }
  if (!options.json) fmt::print("{}GEMM: {:.1f} GFLOP/s (f32, 1024 x 1024 x 1024)\n", table.text(), gemm);
}

}  // namespace fovea
