/// Threads: one way to split a loop over them.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace fovea {

/// A callable that somebody else keeps alive for as long as this is called: what std::function is to owning one. Loops
/// that take one are compiled once, not once for every body.
template <class Signature>
class FunctionRef;
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class Body, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<Body>, FunctionRef>>>
  FunctionRef(Body&& body)  // NOLINT: a body converts, that is the point
      : body_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* callee, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Body>*>(callee))(static_cast<Arguments>(arguments)...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(body_, static_cast<Arguments>(arguments)...); }

 private:
  void* body_;
  Result (*call_)(void*, Arguments...);
};

/// How many threads a loop that begins here may have: 1 inside another parallel loop.
int available_threads();

/// Calls body(begin, end) over a partition of [0, n) into one range per thread. `grain` is the least work that is worth
/// a thread: below two grains, or inside another parallel loop, everything runs on the caller. Ranges depend on the
/// number of threads: a body whose result would too must not be used here. What a body throws reaches the caller.
void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

/// Elements of simple arithmetic worth a thread: about ten microseconds.
inline constexpr std::int64_t element_grain = 16384;

/// Flushes denormals to zero in every thread (f32 programs: Gaussian tails are denormal and slow), or keeps them (f64
/// tests). Only on x86: elsewhere they are always kept.
void set_flush_denormals(bool flush);

}  // namespace fovea
