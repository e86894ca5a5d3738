#include "tensor/constant.h"

#include <bit>
#include <map>
#include <mutex>
#include <utility>

namespace fovea {

namespace {

class Constants {
 public:
  Tensor get(double value, DType dtype, Device device) {
    constexpr std::size_t most = 4096;  // numbers that change in every step must not fill the memory
    std::lock_guard lock(mutex_);
    Known& known = known_[{std::bit_cast<std::uint64_t>(value), dtype}];
    if (known.tensor.defined()) {
      require(known.tensor.version() == known.version, "constant: somebody wrote to the shared tensor of {}", value);
      return known.tensor;
    }
    if (known_.size() > most) known_.clear();
    Tensor made = Tensor::full({1}, value, dtype, device);
    known_[{std::bit_cast<std::uint64_t>(value), dtype}] = {made, made.version()};
    return made;
  }
  Tensor arange(std::int64_t n, DType dtype, Device device, std::int64_t start) {
    constexpr std::int64_t most = 1 << 20;
    if (start < 0 || n < 1 || n > most || start > most - n) return Tensor::arange(n, dtype, device, start);
    std::lock_guard lock(mutex_);
    Known& known = ranges_[dtype];
    if (known.tensor.defined())
      require(known.tensor.version() == known.version, "shared_arange: somebody wrote to the shared tensor");
    if (!known.tensor.defined() || known.tensor.size(0) < start + n) {
      const std::int64_t size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(start + n)));
      known.tensor = Tensor::arange(size, dtype, device);
      known.version = known.tensor.version();
    }
    return known.tensor.slice(0, start, start + n);
  }
  void release() {
    std::lock_guard lock(mutex_);
    known_.clear();
    ranges_.clear();
  }

 private:
  using Key = std::pair<std::uint64_t, DType>;
  struct Known {
    Tensor tensor;
    std::uint64_t version = 0;
  };
  std::mutex mutex_;
  std::map<Key, Known> known_;  ///< of the one GPU that a process uses, as are the ranges
  std::map<DType, Known> ranges_;
};

/// Never destroyed: threads may compute when the program ends.
Constants& constants() {
  static auto* made = new Constants;
  return *made;
}

}  // namespace

Tensor constant(double value, DType dtype, Device device) {
  return device == Device::cpu ? Tensor::full({1}, value, dtype) : constants().get(value, dtype, device);
}

Tensor shared_arange(std::int64_t n, DType dtype, Device device, std::int64_t start) {
  return device == Device::cpu ? Tensor::arange(n, dtype, device, start) : constants().arange(n, dtype, device, start);
}

void release_constants() { constants().release(); }

}  // namespace fovea
