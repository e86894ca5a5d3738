#include "experiments/support/training/shared_work.h"

#include <algorithm>
#include <exception>

#include "experiments/support/program/interrupt.h"
#include "tensor/error.h"

namespace fovea {

bool interrupted_anywhere() {
  if (processes().size() == 1) return interrupted();
  const int signal = interrupting_signal();
  for (const std::string& one : processes().gather(MessageWriter().add(signal).bytes()))
    note_interruption(MessageReader(one).next<int>());
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
  for (const std::string& one : processes().gather(MessageWriter().add(own).bytes())) {
    const auto time = MessageReader(one).next<SpentTime>();
    all = {std::max(all.wall, time.wall), all.cpu + time.cpu};
  }
  return all;
}

std::vector<std::string> results_of_all(const std::function<void(MessageWriter&)>& run) {
  MessageWriter own;
  if (processes().size() == 1) {
    run(own);
    return {""};
  }
  std::string stopped;  // the message of an interruption
  try {
    run(own);
  } catch (const Interrupted& stop) {
    stopped = stop.what();
  }
  std::vector<std::string> all;
  std::string first_message;
  for (const std::string& one :
       processes().gather(MessageWriter().add(interrupting_signal(), stopped, own.bytes()).bytes())) {
    MessageReader from(one);
    int signal = 0;
    std::string message;
    from.read(signal, message, all.emplace_back());
    if (message.empty()) continue;
    note_interruption(signal);
    if (first_message.empty()) first_message = message;
  }
  if (!first_message.empty()) throw Interrupted(first_message);
  return all;
}

}  // namespace fovea
