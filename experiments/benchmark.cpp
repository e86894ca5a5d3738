// Times training steps, beam search, attention, matrix products and kernels on this machine. Other work on the machine
// changes the times; ratios within one run are reliable, because a run times in turns what it compares.
#include "experiments/benchmark.h"

#include <omp.h>

#include "experiments/support/program/device_flag.h"
#include "tensor/formula/philox.h"
#include "tensor/kernels.h"

namespace fovea {

void BenchmarkFlags::add_to(Cli& cli, const std::string& of_rounds, bool has_json) {
  device_flag(cli, device_name);
  if (!of_rounds.empty()) cli.option("--rounds", rounds, "rounds; each round " + of_rounds).range(1, 1000);
  cli.option("--threads", threads, "number of threads of a process; 0: one per core").range(0, 1024);
  if (has_json) cli.option("--json", json, "print one JSON object per row instead of the table");
}

Device BenchmarkFlags::start(const Cli& cli) const {
  if (threads > 0) omp_set_num_threads(threads);
  return started_device(cli, device_name);
}

double seconds_of_call(Device device, double least, const std::function<void()>& call) {
  for (std::int64_t repeats = 1;; repeats *= 2) {
    const double seconds = kernels(device).time([&] {
      for (std::int64_t k = 0; k < repeats; ++k) call();
    });
    if (seconds >= least) return seconds / double(repeats);
  }
}

Turns::Turns(std::size_t cases, int rounds, const std::function<double(std::size_t)>& time) : seconds(cases) {
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < cases; ++k) seconds[k].push_back(time(k));
}

double Turns::speed_against(std::size_t of, std::size_t other) const {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < seconds[of].size(); ++round)
    ratios.push_back(seconds[other][round] / seconds[of][round]);
  return median(ratios);
}

void Results::add(const Json& row) {
  if (json_) return fmt::print("{}\n", text_of(row));
  rows_.push_back(row);
}

void Results::print(const std::string& note) const {
  if (json_) return;
  std::vector<Column> shown;
  std::vector<std::string> headings;
  for (const Column& column : columns_) {
    if (std::ranges::none_of(rows_, [&](const Json& row) { return row.contains(column.key); })) continue;
    shown.push_back(column);
    headings.push_back(column.heading);
  }
  Table table(headings);
  for (const Json& row : rows_) {
    std::vector<Cell> cells;
    for (const Column& column : shown) {
      const Json value = row.value(column.key, Json());
      if (value.is_null())
        cells.emplace_back();
      else if (value.is_string())
        cells.emplace_back(value.get<std::string>());
      else if (column.decimals < 0)
        cells.emplace_back(value.get<std::int64_t>());
      else
        cells.push_back(Cell::number(value.get<double>() * column.scale, column.decimals));
    }
    table.row(std::move(cells));
  }
  fmt::print("{}{}", table.text(), note);
}

std::int32_t RandomTokens::between(std::int64_t least, std::int64_t most) {
  const auto choices = std::uint64_t(most - least + 1);
  return std::int32_t(least + std::int64_t(philox(RandomPosition{.seed = 7}, drawn_++).word[0] % choices));
}

std::vector<std::int32_t> RandomTokens::sentence(std::int64_t shortest, std::int64_t longest) {
  std::vector<std::int32_t> tokens(std::size_t(between(shortest, longest)));
  for (std::int32_t& token : tokens) token = between(4, vocabulary_ - 1);
  return tokens;
}

}  // namespace fovea

int main(int argc, char** argv) {
  using namespace fovea;
  return run("benchmark", argc, argv,
             {{"step", "whole training steps of a model", benchmark_step},
              {"decode", "beam search with a sequence model", benchmark_decode},
              {"attention", "one attention without its projections", benchmark_attention},
              {"gemm", "matrix products", benchmark_gemm},
              {"kernels", "the kernels of a device, and their rates", benchmark_kernels}});
}
