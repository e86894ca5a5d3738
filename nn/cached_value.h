/// One computed value that several threads may use and replace, such as a table of positions.
#pragma once
#include <memory>
#include <mutex>

namespace fovea {

/// Keeps the value computed last. A value never changes: a thread that needs another value stores a new one, and the
/// old value lives until no thread reads it any more. Safe for any number of threads. If several threads find no
/// fitting value at the same time, each of them computes one, and the value stored last stays in the cache.
template <class Value>
class CachedValue {
 public:
  /// Returns the cached value if there is one and fits(value) is true. Otherwise returns the result of
  /// compute(cached), which replaces the cached value. `cached`, a const Value*, points to the value that is replaced,
  /// or is null if there is none.
  template <class Fits, class Compute>
  std::shared_ptr<const Value> get(Fits&& fits, Compute&& compute) {
    std::shared_ptr<const Value> cached = stored();
    if (cached && fits(*cached)) return cached;
    auto computed = std::make_shared<const Value>(compute(cached.get()));
    std::lock_guard lock(mutex_);
    value_ = computed;
    return computed;
  }

 private:
  std::shared_ptr<const Value> stored() {
    std::lock_guard lock(mutex_);
    return value_;
  }

  // Not std::atomic<std::shared_ptr>: GCC 12's load() gives its lock back without releasing, a data race with store().
  std::mutex mutex_;
  std::shared_ptr<const Value> value_;  // guarded by mutex_
};

}  // namespace fovea
