#include "autograd/scope_times.h"

#include <ctime>

namespace fovea {

namespace {

double processor_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void ScopeTimes::enter() { begins_.push_back(processor_seconds()); }

void ScopeTimes::leave(const std::string& name) {
  if (begins_.empty()) return;  // the scope is older than this object
  Sum& sum = sums_[name];
  sum.seconds += processor_seconds() - begins_.back();
  ++sum.calls;
  begins_.pop_back();
}

}  // namespace fovea
