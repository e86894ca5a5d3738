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
  void release() {
    std::map<Key, Known> released;
    std::lock_guard lock(mutex_);
    released.swap(known_);
  }

 private:
  using Key = std::pair<std::uint64_t, DType>;
  struct Known {
    Tensor tensor;
    std::uint64_t version = 0;
  };
  std::mutex mutex_;
  std::map<Key, Known> known_;  ///< of the one GPU that a process uses
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

void release_constants() { constants().release(); }

}  // namespace fovea
