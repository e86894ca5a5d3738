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
#include "experiments/support/program/spent_time.h"
#include "nn/decoding.h"
#include "nn/parallel/process_group.h"

namespace fovea {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hypothesis, tokens, log_probability, score, alignment)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Likelihood, negative_log, tokens, words, characters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SpentTime, wall, cpu)

/// A value as a message to the other processes, and the value of one. Numbers stay what they are, bit for bit.
template <class Value>
std::string message_of(const Value& value) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(value), bytes);
  return bytes;
}
template <class Value>
Value value_of(const std::string& message) {
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
      Result& result = results[static_cast<std::size_t>(item)] = work(item);
      if (size > 1) own.push_back(result);
    }
    return message_of(own);
  });
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    auto item = static_cast<std::size_t>(other);
    std::vector<Result> its = value_of<std::vector<Result>>(all[item]);
    for (Result& result : its) {
      results[item] = std::move(result);
      item += static_cast<std::size_t>(size);
    }
  }
  return results;
}

/// Computes a result for each example, batch by batch, in turns over the processes. work(plan) returns a result for
/// each example of the batch. Returns them in the order of the examples.
template <class Result>
std::vector<Result> for_examples(std::int64_t examples, std::span<const PlannedBatch> plans,
                                 const std::function<std::vector<Result>(const PlannedBatch&)>& work) {
  auto of_batches = shared_out<std::vector<Result>>(
      std::ssize(plans), [&](std::int64_t k) { return work(plans[static_cast<std::size_t>(k)]); });
  std::vector<Result> all(static_cast<std::size_t>(examples));
  for (std::size_t batch = 0; batch < plans.size(); ++batch)
    for (std::size_t row = 0; row < plans[batch].examples.size(); ++row)
      all[static_cast<std::size_t>(plans[batch].examples[row])] = std::move(of_batches[batch][row]);
  return all;
}

}  // namespace fovea
