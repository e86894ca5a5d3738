/// Work that several processes share out, and what they must agree on. In a process that is alone these functions do
/// the work and nothing else.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/support/data/batches.h"
#include "experiments/support/metrics/perplexity.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/program/spent_time.h"
#include "nn/checkpoint.h"
#include "nn/decoding.h"
#include "nn/module.h"
#include "nn/parallel/gradient_sum.h"
#include "nn/parallel/process_group.h"

namespace fovea {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hypothesis, tokens, log_probability, score, alignment)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Likelihood, negative_log, tokens, words, characters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SpentTime, wall, cpu)

/// A value as a message to the other processes, and the value of one. Numbers stay what they are, bit for bit.
template <class Value>
std::string as_message(const Value& value) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(value), bytes);
  return bytes;
}
template <class Value>
Value from_message(const std::string& message) {
  return nlohmann::json::from_cbor(message).get<Value>();
}

/// Whether Ctrl-C or SIGTERM has reached any of the processes; interrupted() is then true in all of them. All processes
/// must call it at the same place of the program.
bool interrupted_anywhere();

/// Calls work() in the first process, and sends the bytes that it returns to all. An Error of the first process ends
/// all of them.
std::string from_first_process(const std::function<std::string()>& work);

/// The answer of the first process, in all of them.
bool is_true_in_first_process(const std::function<bool()>& question);

/// Throws Error unless all processes have the same text. message(rank, text) says in which process it differs from
/// that of the first process, and how.
void require_same_in_all_processes(const std::string& text,
                                   const std::function<std::string(int rank, const std::string& its)>& message);

/// The time that all processes took together for something: the longest by the clock, the sum of their CPU times.
SpentTime of_all_processes(const SpentTime& own);

/// Calls run(), which returns the results of this process's work as a message, and returns the messages of all
/// processes in the order of ranks. If run() throws Interrupted in any process, all processes throw Interrupted.
std::vector<std::string> results_of_all(const std::function<std::string()>& run);

/// Computes work(0), work(1), ... in turns over the processes: item k in process k modulo their number. Returns all
/// results, in order, to every process.
template <class Result>
std::vector<Result> shared_out(std::int64_t items, const std::function<Result(std::int64_t item)>& work) {
  const int rank = processes().rank(), size = processes().size();
  std::vector<Result> results(static_cast<std::size_t>(items));
  const std::vector<std::string> all = results_of_all([&] {
    std::vector<Result> own;
    for (std::int64_t item = rank; item < items; item += size) {
      Result& result = results[std::size_t(item)] = work(item);
      if (size > 1) own.push_back(result);
    }
    return as_message(own);
  });
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    auto item = std::size_t(other);
    std::vector<Result> its = from_message<std::vector<Result>>(all[item]);
    for (Result& result : its) {
      results[item] = std::move(result);
      item += std::size_t(size);
    }
  }
  return results;
}

/// Computes a result for each example, batch by batch, in turns over the processes. work(plan) returns a result for
/// each example of the batch. Returns them in the order of the examples.
template <class Result>
std::vector<Result> for_examples(std::int64_t examples, std::span<const PlannedBatch> plans,
                                 const std::function<std::vector<Result>(const PlannedBatch&)>& work) {
  auto of_batches =
      shared_out<std::vector<Result>>(std::ssize(plans), [&](std::int64_t k) { return work(plans[std::size_t(k)]); });
  std::vector<Result> all(static_cast<std::size_t>(examples));
  for (std::size_t batch = 0; batch < plans.size(); ++batch)
    for (std::size_t row = 0; row < plans[batch].examples.size(); ++row)
      all[std::size_t(plans[batch].examples[row])] = std::move(of_batches[batch][row]);
  return all;
}

class Cli;

// ---- A training that several processes make together

/// One update after another, whose micro-batches the processes share out. A round is one micro-batch of each process.
class SharedUpdate {
 public:
  /// `micro_batches` are those of an update, of all processes together.
  SharedUpdate(const std::vector<NamedParameter>& parameters, std::int64_t micro_batches);

  void begin();
  /// Runs the backward pass of this process's next micro-batch, and adds the gradients and losses of all processes.
  void add(const Variable& loss, double count, const Tensor& unsmoothed);

  /// The sums over all micro-batches of the update.
  struct Sums {
    Tensor loss, unsmoothed;  ///< f64 []
    double count = 0;
  };
  /// Takes part in the last round even if this process has no micro-batch in it.
  Sums finish();

  /// Whether Ctrl-C or SIGTERM had reached one of the processes at the end of the last update. The same in all of them.
  bool is_stopped() const { return is_stopped_; }

 private:
  void round(const Variable& loss);

  std::int64_t micro_batches_, rounds_ = 0;
  GradientSum gradients_;
  SharedSum losses_;  ///< of one section: loss, loss without smoothing
  double count_ = 0;
  bool is_stopped_ = false;
};

/// Copies the tensors of the first process into those of the others.
void share(NamedTensors tensors);

/// Throws Error, in all processes, unless all of them have read the same data, as data.json in the directory says.
void require_same_data_everywhere(const RunDirectory& directory);
/// Throws Error, in all processes, unless all have the same number of threads: sums depend on it.
void require_same_threads();
/// Throws Error, in all processes, unless the parameters are the same in all of them.
void require_same_parameters(const Module& model, std::int64_t update);
/// Throws Error, in all processes, unless all run the same program, of the same version, with the same flags.
/// `directory` is the value of --out or --resume.
void require_same_start(const Cli& cli, const std::string& directory);

/// The number of threads without --threads: one for each core on which this process may run, or its part of those cores
/// if other processes of the group run there too.
int threads_of_a_process();

}  // namespace fovea
