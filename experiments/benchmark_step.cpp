// Times whole training steps of any model that the programs have, and compares variants of the model.
#include "experiments/benchmark_step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <omp.h>

#include "attention/method.h"
#include "experiments/support/attend/engine_flags.h"
#include "experiments/support/program/start_together.h"
#include "experiments/support/text/words.h"
#include "tensor/cpu/parallel.h"
#include "tensor/kernels.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

/// Returns the FLOPs of the matrix products of one step. Counts them in the composed form, because the fused engine
/// does not count its own products.
double flops_of_step(Trainee& trainee) {
  AttentionEngineScope composed(AttentionEngine::composed);
  reset_gemm_statistics();
  trainee.step();
  return gemm_statistics().flops;
}

/// How often a device launched each kernel, the bytes that they moved, and how often the host waited.
struct DeviceWork {
  std::uint64_t waits = 0;
  std::map<std::string, LaunchCount> kernels;  ///< by name

  LaunchCount of(const std::string& kernel) const {
    const auto found = kernels.find(kernel);
    return found == kernels.end() ? LaunchCount() : found->second;
  }
};

/// The work of one step, with the sum of all kernels under the name "all".
DeviceWork work_of_step(Trainee& trainee, Device device) {
  const auto so_far = [&] {
    DeviceWork work{kernels(device).synchronizations(), {}};
    for (const LaunchCount& count : kernels(device).launches()) work.kernels[count.kernel] = count;
    return work;
  };
  const DeviceWork before = so_far();
  trainee.step();
  DeviceWork work = so_far();
  work.waits -= before.waits;
  LaunchCount all;
  for (auto& [kernel, count] : work.kernels) {
    count.launches -= before.of(kernel).launches, count.bytes -= before.of(kernel).bytes;
    all.launches += count.launches, all.bytes += count.bytes;
  }
  std::erase_if(work.kernels, [](const auto& entry) { return entry.second.launches == 0; });
  work.kernels["all"] = all;
  return work;
}

struct StepResult {
  std::string title;
  std::unique_ptr<Trainee> trainee;
  std::size_t peak_bytes = 0;
  std::uint64_t system_allocations = 0;  ///< during the timed steps
  DeviceWork work = {};                  ///< of one step
  double flops = 0;                      ///< of the matrix products of one step, counted in the composed form
  double gemm_seconds = 0;               ///< in matrix products, summed over the timed steps
};

void add_flags(Cli& cli, StepOptions& options) {
  cli.describe("Times whole training steps (forward, backward, clipping, Adam) of a model on one random batch.");
  cli.option(
         "--model", options.classifier,
         "an encoder that labels sentences, with 8192 words: tiny has 2 layers of width 128, base 6 layers of width "
         "512; the flags below change it")
      .configures(classifier);
  cli.choice("--task", options.task,
             {{"translate", Task::translate}, {"language_model", Task::language_model}, {"classify", Task::classify}},
             "translate: an encoder-decoder; language_model: a decoder; classify: an encoder that labels sentences");
  cli.comparable(true);
  cli.add(options.model);
  cli.group("Steps");
  precision_flag(cli, options.precision);
  cli.comparable(false);
  options.comparison.add_to(cli);
  cli.option("--vocabulary", options.vocabulary, "size of the vocabulary, of source and target each").range(8, 1e7);
  cli.option("--batch-tokens", options.batch_tokens,
             "target tokens of the batch, or source tokens with --task classify; padding included")
      .range(1, 1e9);
  cli.option("--length", options.length,
             "padded length of the sentences; the sentences have 7/8 of it or more, with --task classify half of it or "
             "more")
      .range(4, 1e6);
  cli.option("--label-smoothing", options.label_smoothing, "label smoothing of the loss").range(0, 0.99);
  cli.option("--steps", options.steps, "training steps per round and row").range(1, 1000);
  engine_flag(cli, options.engine);
  options.run.add_to(cli, "times every row once");
  cli.option(
      "--launches", options.launches,
      "instead of timing, print how often one step launches each kernel on a GPU, the MiB that these launches read and "
      "write at least, and how often the host waits");
  cli.option("--processes", options.processes,
             "several processes of this machine train together; prints their rate beside that of one process, and of "
             "as many that do not exchange gradients")
      .range(1, 1024);
}

/// A model, made and warmed up.
StepResult prepared_row(const std::string& title, const StepOptions& options) {
  const Device device = options.device();
  const std::size_t before = allocator_statistics(device).bytes_in_use;
  reset_peak(device);
  StepResult row{.title = title, .trainee = std::make_unique<Trainee>(options)};
  for (int step = 0; step < 3; ++step) row.trainee->step();  // warms up caches and the allocator
  row.peak_bytes = allocator_statistics(device).peak_bytes - before;
  row.work = work_of_step(*row.trainee, device);
  row.flops = flops_of_step(*row.trainee);
  return row;
}

/// The model of the flags with plain attention, then the rows that are compared with it.
std::vector<StepResult> prepared_rows(const Cli& cli, const StepOptions& options) {
  const std::string plain = options.model.architecture == Architecture::transformer ? "global" : "classic(additive)";
  auto is_plain = [&](const std::string& attention) { return attention.empty() || attention == plain; };
  StepOptions first = options;
  first.model.attention = first.model.decoder_attention = first.model.cross_attention = "";
  std::vector<StepResult> rows;
  rows.push_back(prepared_row(plain, first));
  if (!options.comparison.is_given() && is_plain(options.model.attention) &&
      is_plain(options.model.decoder_attention) && is_plain(options.model.cross_attention))
    return rows;
  for (const Comparison::Row& row : options.comparison.rows(cli))
    if (row.title != plain) rows.push_back(prepared_row(row.title, options_of<StepOptions>(cli, row, add_flags)));
  return rows;
}

/// Times the rows in turns. The models share the allocator's cache of free blocks: after two rounds it has the blocks
/// that a round needs.
Turns time_steps(std::vector<StepResult>& results, const StepOptions& options) {
  for (int warming = 0; warming < 2; ++warming)
    for (StepResult& result : results) result.trainee->step();
  return Turns(results.size(), options.run.rounds, [&](std::size_t k) {
    StepResult& result = results[k];
    reset_gemm_statistics();
    const std::uint64_t before = allocator_statistics(options.device()).system_allocations;
    const double seconds = kernels(options.device()).time([&] {
      for (int step = 0; step < options.steps; ++step) result.trainee->step();
    });
    result.system_allocations += allocator_statistics(options.device()).system_allocations - before;
    result.gemm_seconds += gemm_statistics().seconds / options.steps;
    return seconds / options.steps;
  });
}

/// Prints the launches and bytes of one step of each row by kernel, and how often the host waits.
void print_launches(const std::vector<StepResult>& results, bool json) {
  std::vector<std::string> titles{"kernel"};
  std::set<std::string> names;
  std::string waits;
  for (const StepResult& result : results) {
    titles.insert(titles.end(), {result.title, "MiB"});
    Json row{{"attention", result.title}, {"flops", result.flops}, {"waits", result.work.waits}};
    for (const auto& [kernel, count] : result.work.kernels) {
      if (kernel == "all") {
        row["all_launches"] = count.launches, row["all_bytes"] = count.bytes;
        continue;
      }
      names.insert(kernel);
      row["launches"][kernel] = count.launches, row["bytes"][kernel] = count.bytes;
    }
    if (json) fmt::print("{}\n", text_of(row));
    waits += fmt::format("{}: the host waits {} times a step; the products are {:.2f} GFLOP\n", result.title,
                         result.work.waits, result.flops / 1e9);
  }
  if (json) return;
  Table table(titles);
  std::vector<std::string> kernels(names.begin(), names.end());
  kernels.emplace_back("all");
  for (const std::string& kernel : kernels) {
    std::vector<Cell> row{kernel};
    for (const StepResult& result : results) {
      const LaunchCount count = result.work.of(kernel);
      row.push_back(std::int64_t(count.launches));
      row.push_back(Cell::number(double(count.bytes) * per_mebibyte, 2));
    }
    table.row(std::move(row));
  }
  fmt::print("{}{}", table.text(), waits);
}

/// On the CPU a steady step must not allocate; CUDA's pool may grow when the order of its blocks changes.
void check_allocations(const StepResult& result, Device device) {
  if (result.system_allocations == 0) return;
  const std::string grown = fmt::format("{} blocks came from the system in steady steps of '{}'; expected 0",
                                        result.system_allocations, result.title);
  require(device != Device::cpu, "{}", grown);
  warn(grown);
}

/// Prints the medians over the rounds.
void print_times(const std::vector<StepResult>& results, const Turns& turns, const StepOptions& options) {
  Results rows(options.run.json, {{"attention", "attention"},
                                  {"tokens/s", "tokens_per_second", 0},
                                  {"steps/s", "steps_per_second", 3},
                                  {"relative to the first", "relative_to_the_first", 3},
                                  {"by FLOPs", "flop_ratio", 3},
                                  {"efficiency", "efficiency", 3},
                                  {"gemm share", "gemm_share", 3},
                                  {"peak MiB", "peak_bytes", 1, per_mebibyte},
                                  {"parameters", "parameters"}});
  for (std::size_t k = 0; k < results.size(); ++k) {
    const StepResult& result = results[k];
    check_allocations(result, options.device());
    const double step = turns.middle(k), ratio = turns.speed_against(k, 0), by_flops = results[0].flops / result.flops;
    Json row{{"attention", result.title},
             {"batch_tokens", options.tokens()},
             {"tokens_per_second", double(options.tokens()) / step},
             {"steps_per_second", 1 / step},
             {"peak_bytes", result.peak_bytes},
             {"launches", result.work.of("all").launches},
             {"bytes_moved", result.work.of("all").bytes},
             {"waits", result.work.waits},
             {"relative_to_the_first", ratio},
             {"flop_ratio", by_flops},
             {"efficiency", ratio / by_flops},
             {"parameters", result.trainee->parameters()}};
    if (options.device() == Device::cpu)  // on a GPU the products are not timed one by one
      row["gemm_share"] = result.gemm_seconds / std::accumulate(turns.seconds[k].begin(), turns.seconds[k].end(), 0.0);
    rows.add(row);
  }
  rows.print();
}

// ---- Training steps of several processes: what their exchange of gradients costs.

/// Seconds of the clock that all processes need for `work`, which they begin together.
double seconds_of_all(const std::function<void()>& work) {
  processes().gather("");
  return seconds_of([&] {
    work();
    processes().gather("");
  });
}

/// The numbers of all processes.
std::vector<double> of_all(double own) {
  std::vector<double> all;
  for (const std::string& one : processes().gather(fmt::format("{}", own))) all.push_back(std::stod(one));
  return all;
}

/// `benchmark step --processes N`.
void benchmark_processes(const Cli& cli, const StepOptions& options) {
  std::vector<std::string> arguments = cli.arguments();
  arguments.insert(arguments.begin(), "step");
  start_together(options.processes, arguments);
  started_device(cli, options.run.device_name);
  const int threads =
      options.run.threads > 0 ? options.run.threads : std::max(1, omp_get_max_threads() / processes_on_own_cores());
  omp_set_num_threads(threads);
  set_flush_denormals(true);
  AttentionEngineScope engine(options.engine);

  Trainee trainee(options);
  GradientSum sum(processes(), trainee.named_parameters());
  const int size = processes().size(), steps = options.steps;
  std::vector<double> waits, exchanges;
  // The seconds that one batch takes in one process with the threads of all, in all processes that work on their own,
  // and in all with an exchange of gradients.
  const auto time = [&](std::size_t way) {
    if (way == 0) {
      const double seconds = seconds_of_all([&] {
        if (!processes().is_first()) return;
        omp_set_num_threads(threads * size);
        for (int k = 0; k < steps; ++k) trainee.step();
      });
      omp_set_num_threads(threads);
      return seconds / steps;
    }
    if (way == 1) {
      processes().gather("");
      const double seconds = seconds_of([&] {
        for (int k = 0; k < steps; ++k) trainee.step();
      });
      double rate = 0;
      for (double own : of_all(steps / seconds)) rate += own;
      return 1 / rate;
    }
    const double before = sum.seconds_waited();
    const double seconds = seconds_of_all([&] {
      for (int k = 0; k < steps; ++k) trainee.step(sum);
    });
    // the last process does not wait for others to compute
    const std::vector<double> waited = of_all((sum.seconds_waited() - before) / steps);
    waits.push_back(*std::ranges::min_element(waited));
    exchanges.push_back(seconds_of_all([&] { sum.exchange(); }));  // without a backward pass
    return seconds / (steps * size);
  };
  Turns(3, 1, time);  // warms up caches and the allocator
  waits.clear(), exchanges.clear();
  const Turns turns(3, options.run.rounds, time);
  const std::uint64_t before = processes().bytes_sent();
  trainee.step(sum);
  const std::uint64_t bytes = processes().bytes_sent() - before;
  const double exchange = median(exchanges), waited = median(waits), share = turns.speed_against(2, 1);

  const auto tokens = double(options.tokens());
  const std::pair<std::string, std::string> ways[] = {
      {"one_process", fmt::format("one process, {} threads", threads * size)},
      {"apart", fmt::format("{} processes apart, {} each", size, counted(std::size_t(threads), "thread"))},
      {"together", "the same together"}};
  Json all{{"processes", size},
           {"threads", threads},
           {"parameters", trainee.parameters()},
           {"share_of_apart", share},
           {"bytes_sent_by_each", bytes},
           {"exchange_seconds", exchange},
           {"waited_seconds", waited},
           {"hidden", 1 - waited / exchange}};
  Table table({"", "tokens/s", "batches/s", "relative to apart"});
  for (std::size_t way = 0; way < 3; ++way) {
    const double rate = 1 / turns.middle(way);
    all[ways[way].first + "_tokens_per_second"] = rate * tokens;
    table.row({ways[way].second, Cell::number(rate * tokens, 0), Cell::number(rate, 3),
               Cell::number(rate * turns.middle(1), 3)});
  }
  if (options.run.json) return fmt::print("{}\n", text_of(all));
  fmt::print(
      "{}together/apart, the median over the rounds: {:.3f}\n"
      "each process sends {:.1f} MiB per update; an exchange alone takes {:.1f} ms, and after the backward pass a "
      "process waits {:.1f} ms for it: {:.0f} % are hidden\n",
      table.text(), share, double(bytes) * per_mebibyte, 1000 * exchange, 1000 * waited,
      100 * std::max(0.0, 1 - waited / exchange));
}

}  // namespace

void benchmark_step(Cli& cli) {
  StepOptions options;
  add_flags(cli, options);
  cli.parse();
  require(options.batch_tokens >= options.length, "--batch-tokens {}: less than one sentence of --length {}",
          options.batch_tokens, options.length);
  require(!options.launches || options.device() != Device::cpu,
          "--launches: counts the launches of a GPU's kernels; add --device cuda");
  require(options.processes == 1 || !(options.launches || options.comparison.is_given()),
          "--processes {}: times one model; leave out --compare and --launches", options.processes);
  if (options.processes > 1) return benchmark_processes(cli, options);
  options.run.start(cli);
  set_flush_denormals(true);
  AttentionEngineScope engine(options.engine);
  if (options.task == Task::classify) options.encoder().require_memory(4, options.batch_tokens);

  for (const Comparison::Row& row : options.comparison.rows(cli)) {
    const StepOptions own = options_of<StepOptions>(cli, row, add_flags);
    row.arguments.empty() ? own.check_model() : with_flag("--compare: '" + row.title + "'", [&] { own.check_model(); });
  }
  std::vector<StepResult> results = prepared_rows(cli, options);
  if (options.launches) return print_launches(results, options.run.json);
  print_times(results, time_steps(results, options), options);
}

}  // namespace fovea
