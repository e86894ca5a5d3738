/// One computed value that several threads may use and replace, such as a table of positions.
#pragma once
#include <atomic>
#include <memory>
#include <utility>

namespace fovea {

/// Keeps the value computed last. Values are immutable: a thread that needs another one publishes a new value, and a
/// thread that still reads the old value keeps that alive. Safe for any number of threads. Threads that miss at the
/// same time each compute a value; one of these stays.
template <class Value>
class CachedValue {
 public:
  /// The cached value if there is one and fits(value) holds. Otherwise the result of compute(cached), which is cached
  /// in its place; `cached` is a const Value*, null the first time.
  template <class Fits, class Compute>
  std::shared_ptr<const Value> get(Fits&& fits, Compute&& compute) {
    std::shared_ptr<const Value> cached = value_.load();
    if (cached && fits(*cached)) return cached;
    auto computed = std::make_shared<const Value>(compute(cached.get()));
    value_.store(computed);
    return computed;
  }

 private:
  std::atomic<std::shared_ptr<const Value>> value_;
};

}  // namespace fovea
