#include "tensor/storage.h"

#include <charconv>

#include "tensor/constant.h"
#include "tensor/error.h"
#include "tensor/kernels.h"

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
  int number = no_gpu;
  const char *first = text.data() + std::min(prefix.size(), text.size()), *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, number);
  require(text.starts_with(prefix) && error == std::errc() && end == last && number >= 0,
          "'{}' is not a device; use cpu, cuda, or cuda:N with the number of a GPU, counted from 0", text);
  const int chosen = choose_gpu(number);
  require(chosen == number, "'{}': this process already uses cuda:{}; a process uses one GPU", text, chosen);
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
