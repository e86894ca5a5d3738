// Training steps of several processes: what their exchange of gradients costs.
#include <algorithm>
#include <numeric>

#include <omp.h>

#include "experiments/benchmark_step.h"
#include "experiments/support/attend/engine_flags.h"
#include "experiments/support/program/start_together.h"
#include "experiments/support/report/table.h"
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

/// Steps per second of all processes together, each of which works on its own.
double rate_apart(int steps, const std::function<void()>& step) {
  processes().gather("");
  const double seconds = seconds_of([&] {
    for (int k = 0; k < steps; ++k) step();
  });
  const std::vector<double> rates = of_all(steps / seconds);
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

/// One round: the times of a step in four ways, in turns.
struct Round {
  double one;       ///< steps a second of one process with the threads of all
  double apart;     ///< of all processes together, without an exchange
  double together;  ///< of all processes together, with it
  double exchange;  ///< seconds of an exchange without a backward pass
  double waited;    ///< seconds that a step waits for the exchange when its backward pass is done: in the last process
};

Round timed_round(Trainee& trainee, GradientSum& sum, int steps, int threads) {
  Round round{};
  const double alone = seconds_of_all([&] {
    if (!processes().is_first()) return;
    omp_set_num_threads(threads * processes().size());
    for (int k = 0; k < steps; ++k) trainee.step();
  });
  omp_set_num_threads(threads);
  round.one = steps / alone;
  round.apart = rate_apart(steps, [&] { trainee.step(); });
  const double before = sum.seconds_waited();
  const double together = seconds_of_all([&] {
    for (int k = 0; k < steps; ++k) trainee.step(sum);
  });
  round.together = steps * processes().size() / together;
  // The last one does not wait for others to compute.
  const std::vector<double> waited = of_all((sum.seconds_waited() - before) / steps);
  round.waited = *std::min_element(waited.begin(), waited.end());
  round.exchange = seconds_of_all([&] { sum.exchange(); });
  return round;
}

double median_of(const std::vector<Round>& rounds, const std::function<double(const Round&)>& value) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(value(round));
  return median(values);
}

}  // namespace

void benchmark_processes(const Cli& cli, const StepOptions& options) {
  std::vector<std::string> arguments = cli.arguments();
  arguments.insert(arguments.begin(), "step");
  start_together(options.processes, arguments);
  require_engine_for(options.engine, started_device(cli, options.device_name));
  const int threads =
      options.threads > 0 ? options.threads : std::max(1, omp_get_max_threads() / processes_on_own_cores());
  omp_set_num_threads(threads);
  set_flush_denormals(true);
  AttentionEngineScope engine(options.engine);

  Trainee trainee(options);
  GradientSum sum(processes(), trainee.named_parameters());
  timed_round(trainee, sum, 1, threads);  // warms up caches and the allocator
  std::vector<Round> rounds;
  for (int k = 0; k < options.rounds; ++k) rounds.push_back(timed_round(trainee, sum, options.steps, threads));
  const std::uint64_t before = processes().bytes_sent();
  trainee.step(sum);
  const std::uint64_t bytes = processes().bytes_sent() - before;

  const int size = processes().size();
  auto of = [&](auto value) { return median_of(rounds, value); };
  const double one = of([](const Round&r) { return r.one; }), apart = of([](const Round&r) { return r.apart; }),
               together = of([](const Round&r) { return r.together; }),
               exchange = of([](const Round&r) { return r.exchange; }),
               share = of([](const Round&r) { return r.together / r.apart; }),
               waited = of([](const Round&r) { return r.waited; });
  const auto tokens = static_cast<double>(options.tokens());
  if (options.json) {
    fmt::print("{}\n", text_of(Json{{"processes", size},
                                    {"threads", threads},
                                    {"parameters", trainee.parameters()},
                                    {"one_process_tokens_per_second", one * tokens},
                                    {"apart_tokens_per_second", apart * tokens},
                                    {"together_tokens_per_second", together * tokens},
                                    {"share_of_apart", share},
                                    {"bytes_sent_by_each", bytes},
                                    {"exchange_seconds", exchange},
                                    {"waited_seconds", waited},
                                    {"hidden", 1 - waited / exchange}}));
    return;
  }
  Table table({"", "tokens/s", "batches/s", "relative to apart"});
  auto row = [&](const std::string& name, double rate) {
    table.row({name, Cell::number(rate * tokens, 0), Cell::number(rate, 3), Cell::number(rate / apart, 3)});
  };
  row(fmt::format("one process, {} threads", threads * size), one);
  row(fmt::format("{} processes apart, {} each", size, counted(static_cast<std::size_t>(threads), "thread")), apart);
  row("the same together", together);
  fmt::print(
      "{}together/apart, the median over the rounds: {:.3f}\n"
      "each process sends {:.1f} MiB per update; an exchange alone takes {:.1f} ms, and after the backward pass a "
      "process "
      "waits {:.1f} ms for it: {:.0f} % are hidden\n",
      table.text(), share, static_cast<double>(bytes) / 1048576, 1000 * exchange, 1000 * waited,
      100 * std::max(0.0, 1 - waited / exchange));
}

}  // namespace fovea
