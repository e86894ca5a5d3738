#include "tensor/storage.h"

#include <atomic>

#include "tensor/constant.h"
#include "tensor/error.h"
#include "tensor/kernels.h"
#include "tensor/support/text_reader.h"

namespace fovea {

std::string_view name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

namespace {

constexpr int no_gpu = -1;
std::atomic<int> chosen_gpu = no_gpu;

/// Chooses a GPU unless one is chosen, and returns the chosen one.
int choose_gpu(int number) {
  int before = no_gpu;
  return chosen_gpu.compare_exchange_strong(before, number) ? number : before;
}

}  // namespace

int gpu_number() { return choose_gpu(0); }

Device parse_device(std::string_view text) {
  if (text == "cpu") return Device::cpu;
  if (text == "cuda") return Device::cuda;
  constexpr std::string_view prefix = "cuda:";
  const int wanted = text.starts_with(prefix) ? number<int>(text.substr(prefix.size())).value_or(no_gpu) : no_gpu;
  require(wanted >= 0, "'{}' is not a device; use cpu, cuda, or cuda:N with the number of a GPU, counted from 0", text);
  const int chosen = choose_gpu(wanted);
  require(chosen == wanted, "'{}': this process already uses cuda:{}; a process uses one GPU", text, chosen);
  return Device::cuda;
}

Storage::Storage(std::size_t bytes, Device device)
    : data_(kernels(device).allocate(bytes)), bytes_(bytes), device_(device) {}

Storage::~Storage() {
  if (!owner_) kernels(device_).deallocate(data_, bytes_);
}

AllocatorStatistics allocator_statistics(Device device) { return kernels(device).statistics(); }
void reset_peak(Device device) { kernels(device).reset_peak(); }
void release_cache(Device device) {
  if (device == Device::cuda) release_constants();
  kernels(device).release_cache();
}

}  // namespace fovea
