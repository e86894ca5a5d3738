// Training steps of several processes: what their exchange of gradients costs.
#include <algorithm>

#include <omp.h>

#include "experiments/benchmark_step.h"
#include "experiments/support/attend/engine_flags.h"
#include "experiments/support/program/start_together.h"
#include "experiments/support/text/words.h"
#include "tensor/cpu/parallel.h"

namespace fovea {

namespace {

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

}  // namespace

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

}  // namespace fovea
