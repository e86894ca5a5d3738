/// Work that several processes share out, and what they must agree on. In a process that is alone these functions do
/// the work and nothing else.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/support/data/batches.h"
#include "experiments/support/program/spent_time.h"
#include "nn/decoding.h"
#include "nn/parallel/process_group.h"

namespace fovea {

/// Writes values as bytes for a message to the other processes of the program.
class MessageWriter {
 public:
  template <class... T>
  MessageWriter& add(const T&... values) {
    (write(values), ...);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void write(const T& value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void write(const std::string& text) { add(text.size()).bytes_.append(text); }
  template <class T>
  void write(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) write(value);
  }
  template <class A, class B>
  void write(const std::pair<A, B>& pair) {
    add(pair.first, pair.second);
  }
  void write(const Hypothesis& one) { add(one.tokens, one.log_probability, one.score, one.alignment); }

  std::string bytes_;
};

/// Reads what a MessageWriter of the same program wrote.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}
  template <class... T>
  void read(T&... values) {
    (read_one(values), ...);
  }
  template <class T>
  T next() {
    T value{};
    read(value);
    return value;
  }

 private:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void read_one(T& value) {
    bytes_.copy(reinterpret_cast<char*>(&value), sizeof value);
    bytes_.remove_prefix(sizeof value);
  }
  void read_one(std::string& text) {
    const auto size = next<std::size_t>();
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
  }
  template <class T>
  void read_one(std::vector<T>& values) {
    values.resize(next<std::size_t>());
    for (T& value : values) read_one(value);
  }
  template <class A, class B>
  void read_one(std::pair<A, B>& pair) {
    read(pair.first, pair.second);
  }
  void read_one(Hypothesis& one) { read(one.tokens, one.log_probability, one.score, one.alignment); }

  std::string_view bytes_;
};

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

/// Calls run(), which writes the results of this process's work, and returns the bytes of all processes in the order of
/// ranks. If run() throws Interrupted in any process, all processes throw Interrupted.
std::vector<std::string> results_of_all(const std::function<void(MessageWriter&)>& run);

/// Computes work(0), work(1), ... in turns over the processes: item k in process k modulo their number. Returns all
/// results, in order, to every process.
template <class Result>
std::vector<Result> shared_out(std::int64_t items, const std::function<Result(std::int64_t item)>& work) {
  const int rank = processes().rank(), size = processes().size();
  std::vector<Result> results(static_cast<std::size_t>(items));
  auto run_own = [&](MessageWriter& to) {
    for (std::int64_t item = rank; item < items; item += size) {
      Result& result = results[static_cast<std::size_t>(item)] = work(item);
      if (size > 1) to.add(result);
    }
  };
  const std::vector<std::string> all = results_of_all(run_own);
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    MessageReader from(all[static_cast<std::size_t>(other)]);
    for (std::int64_t item = other; item < items; item += size) from.read(results[static_cast<std::size_t>(item)]);
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
