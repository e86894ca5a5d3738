#include "experiments/support/training/shared_work.h"

#include <algorithm>
#include <tuple>

#include "experiments/support/program/interrupt.h"
#include "tensor/error.h"

namespace fovea {

bool interrupted_anywhere() {
  if (processes().size() == 1) return interrupted();
  for (const std::string& one : processes().gather(message_of(interrupting_signal())))
    note_interruption(value_of<int>(one));
  return interrupted();
}

std::string from_first_process(const std::function<std::string()>& work) {
  if (processes().size() == 1) return work();
  return processes().gather(processes().is_first() ? work() : std::string()).front();
}

bool is_true_in_first_process(const std::function<bool()>& question) {
  return !from_first_process([&] { return std::string(question() ? "yes" : ""); }).empty();
}

void require_same_in_all_processes(const std::string& text,
                                   const std::function<std::string(int rank, const std::string& its)>& message) {
  if (processes().size() == 1) return;
  const std::vector<std::string> all = processes().gather(text);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all.front()) fail("{}", message(static_cast<int>(rank), all[rank]));
}

SpentTime of_all_processes(const SpentTime& own) {
  if (processes().size() == 1) return own;
  SpentTime all;
  for (const std::string& one : processes().gather(message_of(own))) {
    const auto time = value_of<SpentTime>(one);
    all = {std::max(all.wall, time.wall), all.cpu + time.cpu};
  }
  return all;
}

std::vector<std::string> results_of_all(const std::function<std::string()>& run) {
  std::string own, stopped;  // the message of an interruption
  if (processes().size() == 1) return {run()};
  try {
    own = run();
  } catch (const Interrupted& stop) {
    stopped = stop.what();
  }
  std::vector<std::string> all;
  std::string first_message;
  for (const std::string& one : processes().gather(message_of(std::tuple(interrupting_signal(), stopped, own)))) {
    const auto [signal, message, results] = value_of<std::tuple<int, std::string, std::string>>(one);
    all.push_back(results);
    if (message.empty()) continue;
    note_interruption(signal);
    if (first_message.empty()) first_message = message;
  }
  if (!first_message.empty()) throw Interrupted(first_message);
  return all;
}

}  // namespace fovea
