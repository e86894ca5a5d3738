#include "experiments/support/training/shared_work.h"

#include <algorithm>
#include <tuple>

#include <omp.h>
#include <zlib.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/record/version.h"
#include "tensor/error.h"

namespace fovea {

bool interrupted_anywhere() {
  if (processes().size() == 1) return interrupted();
  for (const std::string& one : processes().gather(as_message(interrupting_signal())))
    note_interruption(from_message<int>(one));
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
    if (all[rank] != all.front()) fail("{}", message(int(rank), all[rank]));
}

SpentTime of_all_processes(const SpentTime& own) {
  if (processes().size() == 1) return own;
  SpentTime all;
  for (const std::string& one : processes().gather(as_message(own))) {
    const auto time = from_message<SpentTime>(one);
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
  for (const std::string& one : processes().gather(as_message(std::tuple(interrupting_signal(), stopped, own)))) {
    const auto [signal, message, results] = from_message<std::tuple<int, std::string, std::string>>(one);
    all.push_back(results);
    if (message.empty()) continue;
    note_interruption(signal);
    if (first_message.empty()) first_message = message;
  }
  if (!first_message.empty()) throw Interrupted(first_message);
  return all;
}

SharedUpdate::SharedUpdate(const std::vector<NamedParameter>& parameters, std::int64_t micro_batches)
    : micro_batches_(micro_batches), gradients_(processes(), parameters) {
  const Device device = parameters.front().variable.device();
  losses_.sections = {{0, 2}};
  losses_.own = Tensor::zeros({2}, DType::f64, device);
  losses_.total = Tensor::zeros({2}, DType::f64, device);
  losses_.has_own = losses_.has_total = {0};
}

void SharedUpdate::begin() {
  gradients_.begin_update();
  losses_.has_total = {0};
  count_ = 0;
  rounds_ = 0;
}

void SharedUpdate::add(const Variable& loss, double count, const Tensor& unsmoothed) {
  count_ += count;
  losses_.own.select(0, 0).copy_from(loss.value().reshape({}));
  losses_.own.select(0, 1).copy_from(unsmoothed.reshape({}));
  round(loss);
}

void SharedUpdate::round(const Variable& loss) {
  losses_.has_own = {std::uint8_t(loss.defined())};
  const std::unique_ptr<PendingSum> losses = processes().all_reduce(losses_);
  gradients_.round(loss);
  losses->wait();
  ++rounds_;
}

SharedUpdate::Sums SharedUpdate::finish() {
  const std::int64_t size = processes().size(), all_rounds = (micro_batches_ + size - 1) / size;
  while (rounds_ < all_rounds) round({});
  Sums sums{losses_.total.select(0, 0), losses_.total.select(0, 1)};
  for (const std::string& one : processes().gather(as_message(std::pair(count_, interrupting_signal())))) {
    const auto [count, signal] = from_message<std::pair<double, int>>(one);
    sums.count += count;
    note_interruption(signal);
    is_stopped_ = is_stopped_ || signal != 0;
  }
  return sums;
}

void share(NamedTensors tensors) {
  if (processes().size() == 1) return;
  for (auto& [name, tensor] : tensors) {
    Tensor host = tensor.to(Device::cpu).contiguous();
    processes().broadcast(host.mutable_address(), host.bytes());
    if (!processes().is_first()) tensor.copy_from(host);
  }
}

void require_same_data_everywhere(const RunDirectory& directory) {
  const std::filesystem::path file = directory.file("data.json");
  const std::string data = std::filesystem::exists(file) ? text_of(load_json(file)) : "";
  require_same_in_all_processes(data, [](int rank, const std::string&) {
    return fmt::format("process {} has read other data than process 0; all of them need the same files", rank);
  });
}

void require_same_threads() {
  require_same_in_all_processes(std::to_string(omp_get_max_threads()), [](int rank, const std::string& its) {
    return fmt::format("process {} has {} threads, which differs from process 0: --threads makes them equal", rank,
                       its);
  });
}

void require_same_parameters(const Module& model, std::int64_t update) {
  uLong sum = ::crc32(0, nullptr, 0);
  for (const auto& [name, tensor] : state(model)) {
    const Tensor host = tensor.to(Device::cpu).contiguous();
    sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(host.address()), host.bytes());
  }
  require_same_in_all_processes(std::to_string(sum), [&](int rank, const std::string&) {
    return fmt::format(
        "after update {} the parameters of process {} differ from those of process 0; their machines compute "
        "differently. -Dnative=false builds for all of them alike",
        update, rank);
  });
}

void require_same_start(const Cli& cli, const std::string& directory) {
  if (processes().size() == 1) return;
  const Json configuration = cli.configuration();
  Json own{{"program", cli.program()}, {"version", commit_text}, {"--out or --resume", directory}};
  for (const auto& [flag, value] : configuration.items()) own["--" + flag] = value;
  const std::vector<std::string> all = processes().gather(text_of(own));
  const Json first = parse_json(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Json its = parse_json(all[rank]);
    for (const auto& [what, value] : its.items())
      require(first.value(what, Json()) == value, "{}: process {} has {}, and process 0 {}; they must be equal", what,
              rank, text_of(value), text_of(first.value(what, Json())));
  }
}

int threads_of_a_process() {
  static const int available = omp_get_max_threads();
  return std::max(1, available / processes_on_own_cores());
}

}  // namespace fovea
