/// The commands of `benchmark`, and what they share: flags, timing in turns, and results as a table or as JSON.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/program.h"
#include "experiments/support/report/table.h"
#include "tensor/tensor.h"

namespace fovea {

void benchmark_step(Cli& cli);
void benchmark_decode(Cli& cli);
void benchmark_gemm(Cli& cli);
void benchmark_attention(Cli& cli);
void benchmark_kernels(Cli& cli);

/// Returns the rate of one f32 product [size, size] by [size, size] on the device now, in GFLOP/s.
double gemm_gflops(std::int64_t size, Device device);

inline double seconds_of(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(const std::vector<double>& values) { return percentile(values, 0.5); }

/// Seconds of one call by the device's clock: the mean of several calls, whose number doubles until they take at least
/// `least` seconds.
double seconds_of_call(Device device, double least, const std::function<void()>& call);

/// --device, --threads, --rounds and --json.
struct BenchmarkFlags {
  int rounds = 5, threads = 0;
  std::string device_name = "cpu";
  bool json = false;

  /// `of_rounds` completes the help "rounds; each round ..." of --rounds; if it is empty, there is no flag --rounds.
  void add_to(Cli& cli, const std::string& of_rounds, bool has_json = true);
  /// Sets the number of threads and starts the device.
  Device start(const Cli& cli) const;
};

/// Seconds of cases that took turns, so that other work on the machine slowed all of them alike.
struct Turns {
  std::vector<std::vector<double>> seconds;  ///< [cases, rounds]

  /// Calls time(k) for every case in every round: the seconds of one pass.
  Turns(std::size_t cases, int rounds, const std::function<double(std::size_t)>& time);
  double middle(std::size_t of) const { return median(seconds[of]); }
  /// How many times as fast case `of` is as case `other`: the median over the rounds.
  double speed_against(std::size_t of, std::size_t other) const;
};

/// Rows of results, which are objects: printed one a line as JSON, or as a table.
class Results {
 public:
  /// A column of the table: the member `key`, multiplied by `scale`. Texts and whole numbers have no decimals (-1).
  struct Column {
    std::string heading, key;
    int decimals = -1;
    double scale = 1;
  };
  Results(bool json, std::vector<Column> columns) : json_(json), columns_(std::move(columns)) {}
  /// Prints the row, or keeps it for the table.
  void add(const Json& row);
  /// Prints the table of all rows, without the columns that no row has, and a line below it; nothing with --json.
  void print(const std::string& note = "") const;

 private:
  bool json_;
  std::vector<Column> columns_;
  std::vector<Json> rows_;
};

constexpr double per_mebibyte = 1.0 / 1048576;

/// Draws random sentences. The tokens are at least 4: smaller ones are padding, <unk>, <s> and </s>.
class RandomTokens {
 public:
  explicit RandomTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  /// Returns a sentence of `shortest` to `longest` tokens.
  std::vector<std::int32_t> sentence(std::int64_t shortest, std::int64_t longest);
  std::int32_t between(std::int64_t least, std::int64_t most);

 private:
  std::int64_t vocabulary_;
  std::uint64_t drawn_ = 0;
};

}  // namespace fovea
