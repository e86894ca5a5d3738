/// Processor time by Scope: which part of a model takes how long.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fovea {

/// While an object of this class lives, it adds up the processor time (of all threads of the process) that this thread
/// spends inside each Scope. A scope's time contains that of the scopes inside it. Only one object may live at a time
/// on each thread. On a GPU the times are those of launching kernels, not of running them.
class ScopeTimes {
 public:
  struct Sum {
    double seconds = 0;
    std::int64_t calls = 0;
  };

  ScopeTimes();
  ~ScopeTimes();
  ScopeTimes(const ScopeTimes&) = delete;
  ScopeTimes& operator=(const ScopeTimes&) = delete;

  /// The sums so far, by the joined name of the nested scopes: "decoder.0.attention".
  const std::map<std::string, Sum>& sums() const { return sums_; }

 private:
  friend class Scope;
  void enter();
  void leave(const std::string& name);

  std::map<std::string, Sum> sums_;
  std::vector<double> begins_;  ///< processor time at the beginning of each open scope, in seconds
};

}  // namespace fovea
